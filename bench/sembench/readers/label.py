"""A choice among labels of which at least one names a sentiment."""

from __future__ import annotations

from collections.abc import Mapping

from bench.sembench.question import Question, polarity


def label(question: Question) -> Mapping[str, float] | None:
    """Choose the label that names the review's sentiment, or else a label that names no sentiment."""
    if len(question.reviews) != 1:
        return None
    named = {option: polarity(option) for option in question.options}
    if not {True, False} & set(named.values()):
        return None
    right = [option for option, positive in named.items() if positive is question.reviews[0].positive]
    right = right or [option for option, positive in named.items() if positive is None]
    return {option: float(option == right[0]) for option in named} if right else None
