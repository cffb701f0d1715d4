"""An answer with the probabilities of all options: as one text in caches, and as values in SQL."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.functions.base import Answer
from flightllm.llm.engine import Choice

_MOST_MISSING = 0.02
"""The most by which the probabilities of all options can miss 1: endpoints round them."""
_PARTS = 4_096
"""Expected values are multiples of 1 / `_PARTS`, which floats add without error."""
EXPECTED = "expected"
"""The reading of answers that are expected values."""
_SEPARATOR = "\x1f"
"""Separates an answer from its probabilities (ASCII's unit separator); nothing follows if they are unknown."""


def with_confidence(answer: Answer) -> Answer:
    """Return the same question with answers `struct<answer, confidence>`; an unknown confidence is NULL."""
    output = pa.struct([("answer", answer.output), ("confidence", pa.float64())])
    reading = f"{answer.reading} with confidence" if answer.probability else answer.reading
    return replace(answer, output=output, parse=_parse_both(answer), probability=True, reading=reading)


def calibrated(answer: Answer) -> Answer:
    """Return the same question with the probabilities of all options beside the answer, see `calibration.py`."""
    reading = f"{answer.reading} calibrated".lstrip()
    parse = answer.parse if answer.probability else lambda text: answer.parse(answer_alone(text))
    return replace(answer, parse=parse, probability=True, reading=reading)


def expected_number(answer: Answer) -> Answer:
    """Return the same question with the expected value of its numbers as the answer.

    The numbers are the options of a choice. Where their probabilities are unknown, the chosen number is the answer. The
    expected value is rounded to a part of `_PARTS`, so that sums of answers are exact, whatever the order of the rows.
    """
    if not isinstance(answer.constraint, Choice):
        return answer
    numbers = [float(option) for option in answer.constraint.options]

    def parse(text: str) -> Any:
        chosen, probabilities = split(text)
        value = answer.parse(chosen)
        if not all_known(probabilities, len(numbers)):
            return value
        return in_parts(sum(p * number for p, number in zip(probabilities, numbers, strict=True)))

    return replace(answer, parse=parse, probability=True, reading=EXPECTED)


def in_parts(number: float) -> float:
    """Return the nearest multiple of 1 / `_PARTS`."""
    return round(_PARTS * number) / _PARTS


def joined(text: str, probabilities: Sequence[float] | None) -> str:
    """Return an answer and the probabilities of all options as one text, in the form that `split` reads."""
    return f"{text}{_SEPARATOR}{','.join(f'{one:.9g}' for one in probabilities or ())}"


def answer_alone(text: str) -> str:
    """Return the answer part of a text that `joined` made."""
    return text.rpartition(_SEPARATOR)[0] if _SEPARATOR in text else text


def split(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the answer and the probabilities in a text of `joined`. Unknown ones are NaN, or empty if all are.

    A text of an earlier version has only the probability of the chosen option.
    """
    answer, separator, listed = text.rpartition(_SEPARATOR)
    return (answer, _probabilities(listed)) if separator else (text, ())


def place_of(text: str, answer: Answer) -> int | None:
    """Return the place of the option that an answer chooses, or None if it chooses none of a choice's options.

    Raises:
        ValueError: the text cannot be read as an answer.
    """
    options = answer.constraint.options if isinstance(answer.constraint, Choice) else ()
    if text in options:
        return options.index(text)
    value = answer.parse(text)
    return next((place for place, option in enumerate(options) if answer.parse(option) == value), None)


def _parse_both(answer: Answer) -> Callable[[str], dict[str, Any]]:
    def parse_both(text: str) -> dict[str, Any]:
        chosen, probabilities = split(text)
        place = place_of(chosen, answer) if len(probabilities) > 1 else 0
        confidence = math.nan if place is None or place >= len(probabilities) else probabilities[place]
        value = answer.parse(text if answer.probability else chosen)
        return {"answer": value, "confidence": None if math.isnan(confidence) else confidence}

    return parse_both


def _probabilities(text: str) -> tuple[float, ...]:
    """Return numbers from 0 to 1 and NaN, or none for other texts: the output of engines and caches is not trusted."""
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        return ()
    return tuple([one if 0.0 <= one <= 1.0 or math.isnan(one) else min(1.0, max(0.0, one)) for one in values])


def all_known(probabilities: Sequence[float], count: int) -> bool:
    """Return whether these are the probabilities of `count` options: numbers whose sum is about 1."""
    return len(probabilities) == count and abs(math.fsum(probabilities) - 1) < _MOST_MISSING  # false for NaN
