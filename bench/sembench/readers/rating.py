"""A rating of one review: a number between a lowest and a highest one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from bench.sembench.labels import HIGHEST, LOWEST
from bench.sembench.question import Question


def rating(question: Question) -> Mapping[str, float] | None:
    """Rate the review. The expected value of the numbers is the score, on the scale that the options span.

    A question about a negative property turns the scale round.
    """
    options = question.options
    if len(question.reviews) != 1 or len(options) < 2 or not all(map(_is_number, options)):
        return None
    scale = sorted(options, key=float)
    low, high = float(scale[0]), float(scale[-1])
    share = (question.reviews[0].stars - LOWEST) / (HIGHEST - LOWEST)
    share = 1 - share if question.wants_positive is False else share
    value = low + share * (high - low)
    chances = dict.fromkeys(options, 0.0)
    for below, above in pairwise(scale):
        if float(below) <= value <= float(above):
            part = (value - float(below)) / (float(above) - float(below))
            chances[below], chances[above] = 1 - part, part
            break
    return chances


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
