"""An answer and how probable it is: as one text, which is kept and shared, and as one value, which SQL gets."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.functions.base import Answer

_SEPARATOR = "\x1f"
"""Between an answer and its probability (ASCII's unit separator); nothing follows it where that is unknown."""


def with_confidence(answer: Answer) -> Answer:
    """Return what asks the same and answers `struct<answer, confidence>`; confidence is NULL where it is unknown."""
    output = pa.struct([("answer", answer.output), ("confidence", pa.float64())])
    return replace(answer, output=output, parse=_parse_both(answer.parse), probability=True)


def join_confidence(text: str, confidence: float | None) -> str:
    """Return one text of an answer and its probability, as a call with confidence reads it."""
    return f"{text}{_SEPARATOR}{'' if confidence is None else repr(float(confidence))}"


def answer_alone(text: str) -> str:
    """Return the answer of a text that `join_confidence` made."""
    return _split(text)[0]


def _split(text: str) -> tuple[str, str]:
    """Return the answer and its probability as texts. The probability is empty where the text has only an answer."""
    answer, separator, confidence = text.rpartition(_SEPARATOR)
    return (answer, confidence) if separator else (text, "")


def _parse_both(parse: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    def parse_both(text: str) -> dict[str, Any]:
        answer, confidence = _split(text)
        return {"answer": parse(answer), "confidence": _probability(confidence)}

    return parse_both


def _probability(text: str) -> float | None:
    """Read a probability from 0 to 1; None for anything else, as what engines and caches give is not trusted."""
    try:
        value = float(text)
    except ValueError:
        return None
    return min(1.0, max(0.0, value)) if math.isfinite(value) else None
