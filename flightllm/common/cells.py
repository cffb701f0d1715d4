"""Columns of a result as texts for the web page."""

from typing import Any

import pyarrow as pa

from flightllm.common.text import json_text, plain_text


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return each column's name and type, and whether the column is numeric."""
    return [{"name": field.name, "type": str(field.type), "number": _is_number(field.type)} for field in schema]


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[list[str | None]]:
    """Return rows of texts: None for NULL, JSON for lists, structs and maps, hexadecimal digits for bytes."""
    return [list(row) for row in zip(*map(_texts, batch.columns), strict=True)]


def _texts(column: Any) -> list[str | None]:
    """Return a column as texts.

    Arrow formats scalar values, because Python has no nanoseconds and would truncate them.
    """
    if pa.types.is_nested(column.type):
        return [None if value is None else json_text(value) for value in _values(column)]
    try:
        if not _is_bytes(column.type):
            texts: list[str | None] = column.cast(pa.string()).to_pylist()
            return texts
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # intervals and durations
        pass
    return [None if value is None else plain_text(value) for value in _values(column)]


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except ValueError:  # nanoseconds inside
        return [str(value) if value.is_valid else None for value in column]
    return values


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)
