"""Cells of a result as JSON values, cut to a length."""

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flightllm.common.amounts import counted
from flightllm.common.text import well_formed

_EXACT = 2**53
"""JSON numbers of this size and above lose digits in JavaScript, so they become texts."""


class Cells:
    """Turns cells into JSON values, and counts the texts that it cuts to `most` characters."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.cut = 0
        """How many cells are cut."""

    def rows(self, batch: pa.RecordBatch) -> Iterator[list[Any]]:
        """Yield the rows of a batch, each a list of JSON values."""
        for row in zip(*map(_python_values, batch.columns), strict=True):
            yield [self._cell(value) for value in row]

    def _cell(self, value: Any) -> Any:
        cut: list[int] = []
        found = self._json(value, cut)
        self.cut += bool(cut)
        return found

    def _json(self, value: Any, cut: list[int]) -> Any:
        match value:
            case None | bool():
                return value
            case str():
                return self._text(value, cut)
            case int():
                return value if -_EXACT < value < _EXACT else str(value)
            case float():
                return value if math.isfinite(value) else _not_finite(value)
            case bytes() | bytearray() | memoryview():
                return f"<{counted(len(value), 'byte')}>"
            case Decimal():
                return format(value, "f") if value.is_finite() else str(value)
            case dt.datetime() | dt.date() | dt.time():
                return value.isoformat()
            case dict():
                return {well_formed(str(name)): self._json(item, cut) for name, item in value.items()}
            case list() | tuple():
                return [self._json(item, cut) for item in self._items(value, cut)]
            case _:
                return self._text(str(value), cut)

    def _text(self, text: str, cut: list[int]) -> str:
        if len(text) <= self._most:
            return well_formed(text)
        cut.append(len(text))
        return f"{well_formed(text[: self._most])}… ({counted(len(text) - self._most, 'character')} more)"

    def _items(self, items: Any, cut: list[int]) -> Any:
        """Return as many items of a list as a text of the same limit has characters."""
        if len(items) <= self._most:
            return items
        cut.append(len(items))
        return [*items[: self._most], f"… ({counted(len(items) - self._most, 'item')} more)"]


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _python_values(column: Any) -> list[Any]:
    """Return a column as Python values; Arrow writes those that Python lacks, such as nanoseconds, as texts."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type) or pa.types.is_duration(column.type):
        try:
            texts: list[Any] = column.cast(pa.string()).to_pylist()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return [str(value) if value.is_valid else None for value in column]
        return texts
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # nanoseconds inside a list or a struct, or a year that Python lacks
        return [str(value) if value.is_valid else None for value in column]
    return values
