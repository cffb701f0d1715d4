"""Answers in words as numbers, for aggregates such as `avg`, which take only numbers."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unicodedata import category

import pyarrow as pa

from flightllm.functions.call import AICall, name_stub

_NUMBER = re.compile(r"(?<![^\W_])(?:(?<!\w)[-+\u2212])?[0-9]++(?:[.,][0-9]++)*+(?:[eE][-+]?[0-9]++)?+")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?|[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+")
"""A number with a mark at each thousand; a single point is a decimal point."""
_GROUPED_BY_POINTS = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")
_PLAIN = re.compile(r"[0-9]+(?:[.,][0-9]+)?")


def read_number(text: str) -> float:
    """Return the only number in a text: 4 of `Rating: 4.`, 4.5 of `4,5`, 1234.5 of `$1,234.5`.

    Raises:
        ValueError: the text has no number or several, as in `4/5` and `4½`, or the number is too large.
    """
    found = _NUMBER.findall(text)
    others = any(not character.isascii() and category(character) in {"Nd", "No"} for character in text)
    value = _value(found[0]) if len(found) == 1 and not others else math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a text with one number; got {text[:80]!r}")
    return value


def with_number(call: AICall, *, whole: bool = False) -> AICall:
    """Return a call of the same prompts whose text answers become numbers: double, or bigint if `whole`."""
    parse = _whole(call.parse) if whole else _double(call.parse)
    return name_stub(replace(call, output=pa.int64() if whole else pa.float64(), parse=parse, numeric=True))


def _double(parse: Callable[[str], Any]) -> Callable[[str], float]:
    return lambda text: read_number(parse(text))


def _whole(parse: Callable[[str], Any]) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = read_number(parse(text))
        if not value.is_integer() or abs(value) >= 2**63:
            raise ValueError(f"expected a text with one whole number; got {text[:80]!r}")
        return int(value)

    return read


def _value(written: str) -> float:
    """Return the value of a number as people write it, NaN for other texts: `1,234.5`, `1.234,5`, `4,5`, `1e3`."""
    sign = -1.0 if written[0] in "-\u2212" else 1.0
    digits, exponent, power = written.lstrip("-+\u2212").lower().partition("e")
    if _GROUPED.fullmatch(digits):
        thousands = "," if digits.index(",") < (digits + ".").index(".") else "."
        digits = digits.replace(thousands, "")
    elif _GROUPED_BY_POINTS.fullmatch(digits):
        digits = digits.replace(".", "")
    elif not _PLAIN.fullmatch(digits):
        return math.nan
    return sign * float(f"{digits.replace(',', '.')}{exponent}{power}")
