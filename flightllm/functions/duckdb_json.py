"""JSON texts as DuckDB writes the parts of them: without spaces, and with the shortest text of each number."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.duckdb_texts import plain_text
from flightllm.functions.own import OwnFunction

DUCKDB_JSON, DUCKDB_KEYS, DUCKDB_VALUE_JSON = "__duckdb_json", "__duckdb_keys", "__duckdb_value_json"
"""The names of the functions in SQL."""
_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*")\s*:')
_NESTED: Final = ("List", "LargeList", "FixedSizeList", "Struct", "Map", "Union", "Dictionary", "Duration")
_PART: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+|(-?\d[\d.eE+-]*)')
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_LEAST_PLAIN, _MOST_PLAIN = 9.999e-7, 1e21
"""Doubles between these have no exponent."""


def duckdb_json(texts: pa.Array) -> pa.Array:
    """Return JSON texts in DuckDB's writing; a text that is not JSON stays as it is.

    DuckDB reads the first of two values with one name in an object, and this result has only that one.

    Raises:
        SqlError: an object within the JSON has a name twice.
    """
    return pa.array([None if text is None else _written(text) for text in texts.to_pylist()], pa.string())


def duckdb_keys(texts: pa.Array) -> pa.Array:
    """Return the names in JSON objects, also repeated ones; other JSON has no names, and other texts have NULL."""
    return pa.array([None if text is None else _keys(text) for text in texts.to_pylist()], pa.list_(pa.string()))


def duckdb_value_json(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the JSON of values by their texts and the names of their types; NULL stays NULL.

    Raises:
        SqlError: a value is a list, a struct or a map, whose parts need a call each.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else _json(text, kind) for text, kind in rows], pa.string())


def _json(text: str, kind: str) -> str:
    if kind.startswith(_NESTED):
        raise SqlError(
            "the JSON of a list, a struct or a map needs a column of a table or a literal: write json_array(a, b), or"
            " json_object('name', a)"
        )
    if kind.startswith("Interval") or not kind.startswith(("Float", "Decimal", "Boolean", "Int", "UInt")):
        return msgspec.json.encode(plain_text(text, kind)).decode()
    if kind == "Float32":
        return _number(repr(float(np.float32(text))))
    return _number(repr(float(text))) if kind.startswith(("Float", "Decimal")) else text


def _keys(text: str) -> list[str] | None:
    try:
        found = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    return [name for name, _ in found] if isinstance(found, tuple) else []


def _written(text: str) -> str:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    names = _KEY.findall(text)
    if len(names) > len(set(names)):
        text = _without_repeated(text)
    return _PART.sub(_part, text)


def _without_repeated(text: str) -> str:
    """Return a JSON text whose outer object has only the first value of each name.

    Raises:
        SqlError: another object has a name twice.
    """
    objects: list[Sequence[tuple[str, object]]] = []

    def read(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        objects.append(pairs)
        first = dict(reversed(pairs))
        return {name: first[name] for name, _ in pairs}

    found = json.loads(text, object_pairs_hook=read)
    inner = objects[:-1] if isinstance(found, dict) else objects  # the parser ends the outer object last
    for names in ([name for name, _ in pairs] for pairs in inner):
        if len(names) > len(set(names)):
            [(name, _)] = Counter(names).most_common(1)
            raise SqlError(f"an object within the JSON has the name {name[:50]!r} twice: write each name once")
    return json.dumps(found, ensure_ascii=False)


def _part(found: re.Match[str]) -> str:
    if found[1]:
        return msgspec.json.encode(msgspec.json.decode(found[1])).decode() if "\\" in found[1] else found[1]
    return _number(found[2]) if found[2] else ""


def _number(text: str) -> str:
    if text.lstrip("-").isdecimal():
        return "0" if text == "-0" else text
    value = float(text)
    written = repr(value)
    if not math.isfinite(value):
        return _NOT_FINITE[written]
    if "e" not in written:
        return written
    if _LEAST_PLAIN < abs(value) < 1:
        return format(Decimal(written), "f")
    if 1 < abs(value) < _MOST_PLAIN:
        return f"{format(Decimal(written), 'f')}.0"
    digits, _, exponent = written.partition("e")
    return f"{digits}e{int(exponent)}"


FUNCTIONS: Final = (
    OwnFunction(duckdb_json, (pa.string(),), pa.string(), DUCKDB_JSON),
    OwnFunction(duckdb_keys, (pa.string(),), pa.list_(pa.string()), DUCKDB_KEYS),
    OwnFunction(duckdb_value_json, (pa.string(), pa.string()), pa.string(), DUCKDB_VALUE_JSON),
)
