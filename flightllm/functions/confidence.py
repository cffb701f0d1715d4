"""An answer with its probability: as one text in caches, and as one struct in SQL."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.functions.base import Answer

_SEPARATOR = "\x1f"
"""Separates an answer from its probability (ASCII's unit separator); an unknown probability is empty."""


def with_confidence(answer: Answer) -> Answer:
    """Return the same question with answers `struct<answer, confidence>`; an unknown confidence is NULL."""
    output = pa.struct([("answer", answer.output), ("confidence", pa.float64())])
    return replace(answer, output=output, parse=_parse_both(answer.parse), probability=True)


def join_confidence(text: str, confidence: float | None) -> str:
    """Return an answer and its probability as one text, in the form that a call with confidence parses."""
    return f"{text}{_SEPARATOR}{'' if confidence is None else repr(float(confidence))}"


def answer_alone(text: str) -> str:
    """Return the answer part of a text that `join_confidence` made."""
    return _split(text)[0]


def _split(text: str) -> tuple[str, str]:
    """Return the answer and its probability as texts. The probability is empty if the text has only an answer."""
    answer, separator, confidence = text.rpartition(_SEPARATOR)
    return (answer, confidence) if separator else (text, "")


def _parse_both(parse: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    def parse_both(text: str) -> dict[str, Any]:
        answer, confidence = _split(text)
        return {"answer": parse(answer), "confidence": _probability(confidence)}

    return parse_both


def _probability(text: str) -> float | None:
    """Return a probability from 0 to 1, or None for other texts: the output of engines and caches is not trusted."""
    try:
        value = float(text)
    except ValueError:
        return None
    return min(1.0, max(0.0, value)) if math.isfinite(value) else None
