"""Read and change JSON objects as Snowflake does: names are sorted, and null is a value of its own."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.json_values import as_json, as_text, at_paths, is_json, value_at
from flightllm.functions.json_values import keys as names_of
from flightllm.functions.jsonb import same_numbers
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS, each_row
from flightllm.functions.variants import answer

RAW, KIND, GOT = "__variant_raw", "__variant_kind", "__variant_got"
"""The names in SQL of the functions that read a value, the name of its kind, and the value at a computed place."""
OBJECT, OBJECT_NAMES, INSERTED = "__variant_object", "__variant_names", "__variant_inserted"
"""The names in SQL of the functions that make an object, list its names, and put a value in."""
PICKED, DELETED, COMPACT = "__variant_picked", "__variant_deleted", "__variant_compact"
"""The names in SQL of the functions that keep or leave out some names, and that write JSON without spaces."""
SAME, PLAIN = "__variant_same", "__variant_plain"
"""The names in SQL of the functions that write equal values as one text, and that write a value as a plain text."""
_KINDS: Final = {"{": "OBJECT", "[": "ARRAY", '"': "VARCHAR", "t": "BOOLEAN", "f": "BOOLEAN", "n": "NULL_VALUE"}
"""The kinds of values by the first letter of their JSON."""
_TYPES: Final = {"Date": "DATE", "Timestamp": "TIMESTAMP_NTZ", "Time": "TIME", "Binary": "BINARY"}
"""The kinds of values that JSON has no form for, by the first letters of their type."""
_Fields = dict[str, msgspec.Raw]


def raw_values(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the JSON text of the value at each row's path; null is the text `null`. An answer is its own value."""
    rows = zip(texts.to_pylist(), paths.to_pylist(), at_paths(texts, paths, as_json), strict=True)
    return pa.array([answer(text, path) if value is None else value for text, path, value in rows], pa.string())


def kinds(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the names that TYPEOF has for JSON texts; `types` are Arrow's types of typed values, else empty.

    Raises:
        SqlError: a value is a time in a zone, and its type is not one of Snowflake's.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else _kind(text.strip(), type_ or "") for text, type_ in rows], pa.string())


def values_got(texts: pa.Array, keys: pa.Array) -> pa.Array:
    """Return the JSON text of the element of a list at a place from 0, or of the field of an object."""
    return each_row(_got, texts, keys)


def objects(names: pa.Array, values: pa.Array, keeps: pa.Array) -> pa.Array:
    """Return JSON objects of names and JSON texts; a pair with a NULL is left out, or with `keeps` has null.

    Raises:
        SqlError: a name comes twice.
    """
    rows = zip(names.to_pylist(), values.to_pylist(), keeps.to_pylist(), strict=True)
    return pa.array([_object(*row) for row in rows], pa.string())


def object_names(texts: pa.Array) -> pa.Array:
    """Return the names in each object; NULL for another value."""
    return each_row(lambda text: names_of(text.encode()), texts, kind=TEXTS)


def inserted(texts: pa.Array, names: pa.Array, values: pa.Array, updates: pa.Array) -> pa.Array:
    """Return objects with one more field; a NULL value adds no field, and `updates` lets it replace one.

    Raises:
        SqlError: the object has the name already, and the row does not update it.
    """
    rows = zip(texts.to_pylist(), names.to_pylist(), values.to_pylist(), updates.to_pylist(), strict=True)
    return pa.array([_inserted(*row) for row in rows], pa.string())


def picked(texts: pa.Array, names: pa.Array) -> pa.Array:
    """Return objects with only the fields that have one of the row's names."""
    return _kept(texts, names, lambda name, chosen: name in chosen)


def deleted(texts: pa.Array, names: pa.Array) -> pa.Array:
    """Return objects without the fields that have one of the row's names."""
    return _kept(texts, names, lambda name, chosen: name not in chosen)


def compact(texts: pa.Array) -> pa.Array:
    """Return JSON texts without spaces between their parts; a text that is not JSON stays."""
    return each_row(_compact, texts)


def same_values(texts: pa.Array) -> pa.Array:
    """Return one JSON text for equal values: names in order, and 1.0 as 1. A text that is not JSON is a string."""
    written = [
        text if text is None or is_json(text.encode()) else msgspec.json.encode(text).decode()
        for text in texts.to_pylist()
    ]
    return compact(same_numbers(pa.array(written, pa.string())))


def plain_values(texts: pa.Array) -> pa.Array:
    """Return a string without quotes, NULL for null, and other values as JSON without spaces."""
    return each_row(_plain, texts)


def _plain(text: str) -> str | None:
    value = value_at(text, ())
    return text if value is None else as_text(_compact(value.decode()).encode())


def _kept(texts: pa.Array, names: pa.Array, keeps: Callable[[str, list[str]], bool]) -> pa.Array:
    made = list[str | None]()
    for text, chosen in zip(texts.to_pylist(), names.to_pylist(), strict=True):
        fields = None if text is None or chosen is None else _fields(text)
        made.append(None if fields is None else _written({n: v for n, v in fields.items() if keeps(n, chosen)}))
    return pa.array(made, pa.string())


def _kind(text: str, type_: str) -> str:
    if type_.startswith("TIMESTAMP"):
        return type_
    if type_.startswith("Timestamp") and '"' in type_:
        raise SqlError(
            "a stored time in a zone is TIMESTAMP_TZ or TIMESTAMP_LTZ, and the server does not know which: write"
            " TYPEOF(t::TIMESTAMP_TZ::VARIANT)"
        )
    found = next((name for begin, name in _TYPES.items() if type_.startswith(begin)), None)
    if found is not None:
        return found
    if text[:1].isdigit() or text[:1] == "-":
        is_whole = text.lstrip("-").isdigit()
        return "INTEGER" if is_whole else "DOUBLE" if "e" in text.lower() else "DECIMAL"
    kind = _KINDS.get(text[:1], "VARCHAR")
    return kind if kind == "VARCHAR" or value_at(text, ()) is not None else "VARCHAR"


def _got(text: str, key: str) -> str | None:
    if text.lstrip()[:1] == "[":
        value = value_at(text, (int(key),)) if key.isdecimal() else None
    else:
        value = value_at(text, (key,))
    return None if value is None else value.decode()


def _fields(text: str) -> _Fields | None:
    try:
        return msgspec.json.decode(text, type=_Fields)
    except (msgspec.DecodeError, RecursionError):
        return None


def _written(fields: Mapping[str, msgspec.Raw]) -> str:
    return msgspec.json.encode(dict(sorted(fields.items()))).decode()


def _object(names: list[str | None] | None, values: list[str | None] | None, keeps: bool | None) -> str:  # noqa: FBT001 - one row
    fields: _Fields = {}
    for name, value in zip(names or [], values or [], strict=True):
        if name is None or (value is None and not keeps):
            continue
        if name in fields:
            raise SqlError(f"the name {name[:100]!r} comes twice in an object: write each name once")
        fields[name] = msgspec.Raw((value or "null").encode())
    return _written(fields)


def _inserted(text: str | None, name: str | None, value: str | None, updates: bool | None) -> str | None:  # noqa: FBT001 - one row
    fields = None if text is None or name is None else _fields(text)
    if fields is None or name is None:
        return None
    if name in fields and not updates:
        raise SqlError(f"the object has {name[:100]!r} already: write OBJECT_INSERT(object, name, value, TRUE)")
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = msgspec.Raw(value.encode())
    return _written(fields)


def _compact(text: str) -> str:
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return text


FUNCTIONS: Final = (
    OwnFunction(raw_values, (pa.string(), pa.string()), pa.string(), RAW),
    OwnFunction(kinds, (pa.string(), pa.string()), pa.string(), KIND),
    OwnFunction(values_got, (pa.string(), pa.string()), pa.string(), GOT),
    OwnFunction(objects, (TEXTS, TEXTS, pa.bool_()), pa.string(), OBJECT),
    OwnFunction(object_names, (pa.string(),), TEXTS, OBJECT_NAMES),
    OwnFunction(inserted, (pa.string(), pa.string(), pa.string(), pa.bool_()), pa.string(), INSERTED),
    OwnFunction(picked, (pa.string(), TEXTS), pa.string(), PICKED),
    OwnFunction(deleted, (pa.string(), TEXTS), pa.string(), DELETED),
    OwnFunction(same_values, (pa.string(),), pa.string(), SAME),
    OwnFunction(plain_values, (pa.string(),), pa.string(), PLAIN),
    OwnFunction(compact, (pa.string(),), pa.string(), COMPACT),
)
