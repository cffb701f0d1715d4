"""Frames of Python's libraries as Arrow data: pandas, polars, Arrow, and what has Arrow's stream interface.

The libraries are never imported here: only a program that has imported them can have their frames.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flightllm.connection.result import Result
from flightllm.errors import InvalidInputError


def is_frame(value: object) -> bool:
    """Return whether a query can read a value by its variable's name: a frame, a series or an earlier result."""
    if isinstance(value, type):
        return False
    arrow = isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
    return arrow or isinstance(value, Result) or any(test(value) for test in (_is_pandas, _is_polars, _is_series))


def reader_of(frame: object, name: str) -> pa.RecordBatchReader:
    """Return the rows of a frame; `name` is its table's name, for errors. A reader can be read once.

    An index of pandas is left out. A mapping holds columns by name, and a sequence holds rows. A series without a name
    becomes a column `name`.

    Raises:
        InvalidInputError: the value is not a frame, or a table cannot have its columns.
    """
    try:
        reader = _reader(_framed(frame, name))
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
        frame = _from_polars(frame.collect() if hasattr(frame, "collect") else frame)
    elif isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif hasattr(frame, "scanner"):  # a data set of Arrow
        return frame.scanner().to_reader()
    elif hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pa.Table):
        return pa.RecordBatchReader.from_stream(frame)
    elif isinstance(frame, Mapping):
        frame = pa.table(dict(frame))
    elif isinstance(frame, Sequence) and frame and all(isinstance(row, Mapping) for row in frame):
        frame = _from_rows(frame)
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
    if str(values.dtype).startswith(("period[", "interval[")):  # Arrow has numbers or structs for them
        values = values.astype("object").where(values.notna(), None).map(str, na_action="ignore")
    try:
        column = pa.array(values, from_pandas=True)
        return pa.array(map(_text, column.to_pylist()), pa.string()) if isinstance(column.type, pa.UuidType) else column
    except OverflowError as error:
        raise InvalidInputError(
            f"the column {name!r} has a whole number of more than 64 bits: make Decimals or texts of the numbers"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the column {name!r} ({values.dtype}) cannot become a column of a table, as for values of several types:"
            f" {_told(error)}; astype('str') makes texts"
        ) from error


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _from_polars(frame: Any) -> pa.Table:
    for name, kind in frame.schema.items():
        if _holds_objects(kind):
            raise InvalidInputError(
                f"the column {name!r} ({kind}) holds objects of Python, which a table cannot have:"
                " give the column a type of polars, such as String"
            )
    try:
        return frame.to_arrow()
    except pa.ArrowException:
        for name, kind in frame.schema.items():
            try:
                frame.select(name).head(0).to_arrow()
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"the column {name!r} ({kind}) cannot become a column of a table: cast the column to another type"
                ) from error
        raise


def _holds_objects(kind: Any) -> bool:
    """Return whether a type of polars is Object, or has Object in it."""
    inner = [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", ()))]
    return str(kind) == "Object" or any(_holds_objects(one) for one in inner if one is not None)


def _from_rows(rows: Sequence[Mapping[Any, Any]]) -> pa.Table:
    """Return rows as a table; a row without a column has NULL there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({str(name): [row.get(name) for row in rows] for name in names})


def _framed(value: Any, name: str) -> Any:
    """Return a series as a frame of one column; return other values unchanged."""
    if not _is_series(value):
        return value
    return value.to_frame(name if value.name in (None, "") else value.name)


def _is_series(value: object) -> bool:
    found = [getattr(sys.modules.get(library), "Series", ()) for library in ("pandas", "polars")]
    return any(isinstance(value, kind) for kind in found)


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
