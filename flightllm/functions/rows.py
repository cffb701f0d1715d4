"""The values of a column, row by row: NULL for a row with a NULL."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

TEXTS: Final = pa.list_(pa.string())
"""The type of lists of texts."""


def each_row(compute: Callable[..., Any], *columns: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return the value of each row of columns; without `kind`, the values are texts.

    A row in which a column is NULL has NULL: `compute` never sees a NULL.
    """
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if None in row else compute(*row) for row in rows], kind or pa.string())
