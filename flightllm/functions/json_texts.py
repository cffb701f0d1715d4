"""The JSON texts of values, objects and lists."""

import math
from typing import Final

import msgspec
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

JSON_TEXT, JSON_OBJECT, JSON_LIST = "__json_text", "__json_object", "__json_list"
"""The names of the functions in SQL. Their results are JSON, which a JSON object takes as it is."""
_NESTED: Final = ("List", "LargeList", "FixedSizeList", "Struct", "Map", "Union")


def json_text(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the JSON of values by their texts and the names of their types; NULL stays NULL.

    Raises:
        SqlError: a value is a list, a struct or a map, whose parts need a call each.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else json_of(text, kind) for text, kind in rows], pa.string())


def json_object(names: pa.Array, values: pa.Array) -> pa.Array:
    """Return JSON objects of names and JSON texts; a value that is NULL becomes null.

    Raises:
        SqlError: a name is NULL.
    """
    return each_row(_object, names, values)


def json_list(values: pa.Array) -> pa.Array:
    """Return JSON lists of JSON texts; a value that is NULL becomes null."""
    return pa.array(
        [None if row is None else f"[{','.join(map(_or_null, row))}]" for row in values.to_pylist()], pa.string()
    )


def _object(names: list[str | None], values: list[str | None]) -> str:
    fields = []
    for name, value in zip(names, values, strict=True):
        if name is None:
            raise SqlError("a name in a JSON object is NULL: write coalesce(name, '')")
        fields.append(f"{_quoted(name)}:{_or_null(value)}")
    return f"{{{','.join(fields)}}}"


def _or_null(value: str | None) -> str:
    return "null" if value is None else value


def json_of(text: str, kind: str) -> str:
    """Return the JSON of one value; see `json_text`."""
    if kind.startswith(_NESTED):
        raise SqlError(
            "to_json, json_object and json_array take lists, structs and maps that are columns of tables or literals:"
            " build others by json_array(a, b) and json_object('name', a)"
        )
    if kind.startswith("Float"):
        value = float(text)
        return repr(value) if math.isfinite(value) else "null"
    if kind == "Boolean" or (kind.startswith(("Int", "UInt", "Decimal")) and not kind.startswith("Interval")):
        return text
    # A text of a part of a list or a struct is that of Arrow, and others are those of PostgreSQL.
    return _quoted(text.replace("T", " ", 1) if kind.startswith("Timestamp") else text)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


FUNCTIONS: Final = (
    OwnFunction(json_text, (pa.string(), pa.string()), pa.string(), JSON_TEXT),
    OwnFunction(json_object, (pa.list_(pa.string()), pa.list_(pa.string())), pa.string(), JSON_OBJECT),
    OwnFunction(json_list, (pa.list_(pa.string()),), pa.string(), JSON_LIST),
)
