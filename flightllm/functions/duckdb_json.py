"""JSON texts as DuckDB writes the parts of them: without spaces, and with the shortest text of each number."""

import re
from decimal import Decimal
from typing import Final

import msgspec
import pyarrow as pa

from flightllm.functions.own import OwnFunction

DUCKDB_JSON: Final = "__duckdb_json"
"""The name of the function in SQL."""
_PART: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+|(-?\d[\d.eE+-]*)')
_LEAST_PLAIN, _MOST_PLAIN = 9.999e-7, 1e21
"""Doubles between these have no exponent."""


def duckdb_json(texts: pa.Array) -> pa.Array:
    """Return JSON texts in DuckDB's writing; a text that is not JSON stays as it is."""
    return pa.array([None if text is None else _written(text) for text in texts.to_pylist()], pa.string())


def _written(text: str) -> str:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return _PART.sub(_part, text)


def _part(found: re.Match[str]) -> str:
    if found[1]:
        return msgspec.json.encode(msgspec.json.decode(found[1])).decode() if "\\" in found[1] else found[1]
    return _number(found[2]) if found[2] else ""


def _number(text: str) -> str:
    if text.lstrip("-").isdecimal():
        return "0" if text == "-0" else text
    value = float(text)
    written = repr(value)
    if "e" not in written or abs(value) == float("inf"):
        return written
    if _LEAST_PLAIN < abs(value) < 1:
        return format(Decimal(written), "f")
    if 1 < abs(value) < _MOST_PLAIN:
        return f"{format(Decimal(written), 'f')}.0"
    digits, _, exponent = written.partition("e")
    return f"{digits}e{int(exponent)}"


FUNCTIONS: Final = (OwnFunction(duckdb_json, (pa.string(),), pa.string(), DUCKDB_JSON),)
