"""Converts one table of an SQLite file to a Parquet file."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.common.names import quoted
from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import column_names

ENDINGS = (".sqlite", ".sqlite3", ".db")
_HEAD = b"SQLite format 3\0"
_ROWS = 4_096
_TYPES = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}


def sqlite_tables(path: Path) -> list[str]:
    """Return the names of the tables.

    Raises:
        InvalidInputError: the file is not an SQLite file.
    """
    with _opened(path) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [name for (name,) in found if not name.startswith("sqlite_")]


def convert_sqlite(path: Path, table: str, target: Path) -> list[str]:
    """Write the rows of a table; return notes. A column with values of several types becomes a text column.

    Raises:
        InvalidInputError: the file cannot be read, or has no such table.
    """
    names = sqlite_tables(path)
    table = table or next(iter(names), "")
    if table not in names:
        raise InvalidInputError(f"it has no table {table!r}; its tables are {', '.join(names) or 'none'}")
    with _opened(path) as database:
        source = quoted(table)
        given = [row[0] for row in database.execute(f"SELECT * FROM {source} LIMIT 0").description]
        schema = pa.schema(zip(column_names(given), _types(database, source, given), strict=True))
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            cursor = database.execute(f"SELECT * FROM {source}")
            while rows := cursor.fetchmany(_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [_array(cells, kind) for cells, kind in zip(columns, schema.types, strict=True)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        mixed = [name for name, kind in zip(given, _kinds(database, source, given), strict=True) if len(kind) > 1]
        mixed = [name for name in mixed if schema.field(given.index(name)).type == pa.string()]
    return [f"columns with values of several types are texts: {', '.join(mixed)}"] if mixed else []


def _kinds(database: sqlite3.Connection, source: str, names: Sequence[str]) -> list[set[str]]:
    """Return the types of the values of each column, without NULL."""
    asked = ", ".join(f"group_concat(DISTINCT typeof({quoted(name)}))" for name in names)
    (found,) = database.execute(f"SELECT {asked} FROM {source}")
    return [{*(kinds or "").split(",")} - {"null", ""} for kinds in found]


def _types(database: sqlite3.Connection, source: str, names: Sequence[str]) -> list[pa.DataType]:
    found = []
    for kinds in _kinds(database, source, names):
        only = "real" if kinds == {"integer", "real"} else next(iter(kinds), "text") if len(kinds) < 2 else "text"
        found.append(_TYPES[only])
    return found


def _array(cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.array([_text(cell) for cell in cells], kind)
    return pa.array([float(cell) if kind == pa.float64() and cell is not None else cell for cell in cells], kind)


def _text(cell: Any) -> str | None:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return None if cell is None else str(cell)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with path.open("rb") as file:
            if file.read(len(_HEAD)) != _HEAD:
                raise InvalidInputError("it is not an SQLite file")
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except (sqlite3.Error, OSError) as error:
        raise InvalidInputError(f"it cannot be read as an SQLite file: {error}") from error
