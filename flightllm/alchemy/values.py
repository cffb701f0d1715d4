"""Python's values of Arrow's, and back: rows of results, and parameters."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.common.leaf_types import in_microseconds

_LARGEST = 2**63 - 1
_DAYS_OF_MONTH = 30
"""Python's time spans know no months. PostgreSQL's drivers take 30 days for one, too."""
_MICROSECOND = 1_000


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch as Python's values.

    Times keep their microseconds. Intervals are time spans, and maps are dictionaries.
    """
    if not batch.num_columns:
        return iter([()] * batch.num_rows)
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    column = column.cast(in_microseconds(column.type), safe=False)  # nanoseconds would need pandas
    values: list[Any] = column.to_pylist()
    change = _change(column.type)
    return values if change is None else [None if value is None else change(value) for value in values]


def _change(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what turns a value of pyarrow into the one to show; None if it is the same."""
    if pa.types.is_interval(kind):
        return _span
    if pa.types.is_map(kind):
        inner = _change(kind.item_type)
        return dict if inner is None else lambda pairs: {key: _changed(inner, one) for key, one in pairs}
    if is_list(kind):
        inner = _change(kind.value_type)
        return None if inner is None else lambda values: [_changed(inner, one) for one in values]
    if pa.types.is_struct(kind):
        changes = {part.name: change for part in kind.fields if (change := _change(part.type)) is not None}
        return None if not changes else lambda value: _changed_fields(changes, value)
    return None


def _changed(change: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if value is None or change is None else change(value)


def _changed_fields(changes: dict[str, Callable[[Any], Any]], value: dict[str, Any]) -> dict[str, Any]:
    return value | {name: _changed(change, value[name]) for name, change in changes.items()}


def _span(value: Any) -> dt.timedelta:
    days = value.months * _DAYS_OF_MONTH + value.days
    return dt.timedelta(days=days, microseconds=value.nanoseconds // _MICROSECOND)


def bound(many: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows of parameters as a table with a column for each parameter.

    Raises:
        TypeError, ValueError, pa.ArrowException: a parameter has no Arrow type, or rows differ in length or type.
    """
    columns = [_column([_bindable(value) for value in values]) for values in zip(*many, strict=True)]
    return pa.table(columns, names=[str(place) for place in range(len(columns))])


def _column(values: list[Any]) -> pa.Array:
    if any(isinstance(value, Decimal) for value in values):
        values = [Decimal(str(value)) if isinstance(value, int | float) else value for value in values]
    return pa.array(values)


def _bindable(value: Any) -> Any:
    """Return a value for Arrow: large numbers as decimals, UUIDs as texts, NaT as NULL, numpy's scalars as Python's."""
    if isinstance(value, dt.date):
        return value if value == value else None  # noqa: PLR0124 -- NaT of pandas is a date and differs from itself
    if isinstance(value, bool | str | float | bytes | Decimal | None):
        return value
    if isinstance(value, int):
        return Decimal(value) if abs(value) > _LARGEST else value
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_bindable(one) for one in value]
    if isinstance(value, dict):
        return {key: _bindable(one) for key, one in value.items()}
    if hasattr(value, "tolist"):  # a scalar or an array of numpy
        return value.tolist()
    return value
