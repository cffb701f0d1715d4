"""Frames of Python's libraries as Arrow data: pandas, polars, Arrow, and what has Arrow's stream interface.

The libraries are never imported here: only a program that has imported them can have their frames.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flightllm.errors import InvalidInputError


def is_frame(value: object) -> bool:
    """Return whether a value is a frame that a query can read by its variable's name."""
    if isinstance(value, type):
        return False
    return isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or _is_pandas(value) or _is_polars(value)


def reader_of(frame: object, name: str) -> pa.RecordBatchReader:
    """Return the rows of a frame; `name` is its table's name, for errors. A reader can be read once.

    An index of pandas is left out. A mapping holds columns by name, and a sequence holds rows.

    Raises:
        InvalidInputError: the value is not a frame, or a table cannot have its columns.
    """
    try:
        reader = _reader(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} cannot become a table: {_told(error)}") from error
    if reader is None:
        raise InvalidInputError(
            f"{name} is of the type {type(frame).__name__}: give a frame of pandas or polars, or Arrow data"
        )
    names = reader.schema.names
    if not names:
        raise InvalidInputError(f"{name} has no columns: a table has at least one")
    double = [column for column, count in Counter(names).items() if count > 1]
    if double:
        raise InvalidInputError(f"{name} has several columns {double[0]!r}: give each column its own name")
    return reader


def _reader(frame: Any) -> pa.RecordBatchReader | None:
    if isinstance(frame, type):
        return None
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if _is_pandas(frame):
        frame = _from_pandas(frame)
    elif _is_polars(frame):
        frame = (frame.collect() if hasattr(frame, "collect") else frame).to_arrow()
    elif isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif hasattr(frame, "scanner"):  # a data set of Arrow
        return frame.scanner().to_reader()
    elif hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pa.Table):
        return pa.RecordBatchReader.from_stream(frame)
    elif isinstance(frame, Mapping):
        frame = pa.table(dict(frame))
    elif isinstance(frame, Sequence) and frame and all(isinstance(row, Mapping) for row in frame):
        frame = pa.Table.from_pylist([dict(row) for row in frame])
    return frame.to_reader() if isinstance(frame, pa.Table) else None


def _from_pandas(frame: Any) -> pa.Table:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise InvalidInputError(
            "the columns of the frame have several levels: join them to one name, as in"
            " frame.columns = ['_'.join(map(str, one)) for one in frame.columns]"
        )
    names = [str(column) for column in frame.columns]
    columns = [_column(frame.iloc[:, place], name) for place, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names=names)


def _column(values: Any, name: str) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the column {name!r} ({values.dtype}) cannot become a column of a table, as for values of several types:"
            f" {_told(error)}; astype('str') makes texts"
        ) from error


def _is_pandas(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ()))


def _is_polars(value: object) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(
        value, (getattr(polars, "DataFrame", ()), getattr(polars, "LazyFrame", ()))
    )


def _told(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
