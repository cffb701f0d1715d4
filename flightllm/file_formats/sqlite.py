"""Converts one table of an SQLite file to a Parquet file."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from flightllm.common.names import quoted
from flightllm.common.text import plain_text
from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import column_names
from flightllm.file_formats.kinds import CLOCKS, DATES, ColumnKinds, cast
from flightllm.file_formats.table_writer import table_writer

ENDINGS = (".sqlite", ".sqlite3", ".db")
_HEAD = b"SQLite format 3\0"
_ROWS = 4_096
_DATE = re.compile("DATE|TIME")
"""Matches a declared type of dates or times, such as DATETIME."""
_OTHER = "cp1252"
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
    """Write the rows of a table; return notes.

    A column with values of several types becomes a text column. A column declared as one of dates or times has this
    type if all values are texts in the notation of ISO 8601.

    Raises:
        InvalidInputError: the file cannot be read, or has no such table.
    """
    names = sqlite_tables(path)
    table = table or next(iter(names), "")
    if table not in names:
        raise InvalidInputError(f"it has no table {table!r}; its tables are {', '.join(names) or 'none'}")
    with _opened(path) as database:
        return _Reading(database, quoted(table)).write(target)


class _Reading:
    """The reading of one table."""

    def __init__(self, database: sqlite3.Connection, source: str) -> None:
        self._database = database
        self._source = source
        self._foreign = self._digits = False
        """Whether a text was not UTF-8, and whether bytes among texts were not."""
        database.text_factory = self._decoded
        self._names = [row[0] for row in database.execute(f"SELECT * FROM {source} LIMIT 0").description]
        self._kinds = self._found_kinds()
        self._dates = self._found_dates()

    def _decoded(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            self._foreign = True
            return text.decode(_OTHER, "replace")

    def _found_kinds(self) -> list[set[str]]:
        """Return the types of the values of each column, without NULL."""
        asked = ", ".join(f"group_concat(DISTINCT typeof({quoted(name)}))" for name in self._names)
        (found,) = self._database.execute(f"SELECT {asked} FROM {self._source}")
        return [{*(kinds or "").split(",")} - {"null", ""} for kinds in found]

    def _found_dates(self) -> dict[int, ColumnKinds]:
        """Return the types of the columns that are declared as dates or times, where all values are."""
        declared = [str(row[2]).upper() for row in self._database.execute(f"PRAGMA table_info({self._source})")]
        if len(declared) != len(self._names):
            return {}  # of a virtual table
        places = [place for place, kind in enumerate(declared) if _DATE.search(kind) and self._kinds[place] == {"text"}]
        seen = {place: ColumnKinds(kinds=(*DATES, *CLOCKS)) for place in places}
        columns = ", ".join(quoted(self._names[place]) for place in places)
        for rows in self._rows(columns) if places else ():
            for one, cells in zip(seen.values(), zip(*rows, strict=True), strict=True):
                one.see(pa.array(cells, pa.string()))
        return {place: one for place, one in seen.items() if one.kind is not None and not one.missing}

    def _rows(self, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._database.execute(f"SELECT {columns} FROM {self._source}")
        while rows := cursor.fetchmany(_ROWS):
            yield rows

    def _type(self, place: int) -> pa.DataType:
        kinds = self._kinds[place]
        if place in self._dates:
            return self._dates[place].type
        if kinds == {"integer", "real"}:
            return pa.float64()
        return _TYPES[next(iter(kinds), "text") if len(kinds) < 2 else "text"]

    def write(self, target: Path) -> list[str]:
        """Write all rows; return notes."""
        types = [self._type(place) for place in range(len(self._names))]
        schema = pa.schema(zip(column_names(self._names), types, strict=True))
        with table_writer(target, schema) as writer:
            for rows in self._rows("*"):
                columns = enumerate(zip(*rows, strict=True))
                arrays = [self._array(place, cells, types[place]) for place, cells in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return list(self._notes(types))

    def _array(self, place: int, cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
        if place in self._dates:
            return cast(pa.array(cells, pa.string()), self._dates[place].kind, missing=False)
        if kind == pa.string():
            return pa.array([self._text(cell) for cell in cells], kind)
        return pa.array([float(cell) if kind == pa.float64() and cell is not None else cell for cell in cells], kind)

    def _text(self, cell: Any) -> str | None:
        if isinstance(cell, bytes):
            try:
                return cell.decode()
            except UnicodeDecodeError:
                self._digits = True
        return None if cell is None else plain_text(cell)

    def _notes(self, types: Sequence[pa.DataType]) -> Iterator[str]:
        found = zip(self._names, self._kinds, types, strict=True)
        mixed = [name for name, kinds, kind in found if len(kinds) > 1 and kind == pa.string()]
        if mixed:
            digits = "; bytes that are not UTF-8 are hexadecimal digits" if self._digits else ""
            yield f"columns with values of several types are texts: {', '.join(mixed)}{digits}"
        if self._foreign:
            yield f"texts that are not UTF-8 are read as {_OTHER}"


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
