"""Converts JSON files to one Parquet file."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from flightllm.common.row_groups import gathered
from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import column_names
from flightllm.file_formats.json_lines import NotPlainError, convert_lines
from flightllm.file_formats.json_types import Column, Field, Notes, value_text, written_json
from flightllm.file_formats.json_values import JsonValues
from flightllm.file_formats.options import NOTHING_SAID, TYPES, CsvOptions
from flightllm.file_formats.table_writer import table_writer

_ONLY = "json"
"""The only column where a row is not an object."""
QUICK = 1 << 20
"""Larger files are tried with the quick reader first. They are read in a process of their own."""
_CHUNK_ROWS = 4_096
_CHUNK_CHARACTERS = 1 << 24
"""A chunk ends at the row that reaches one of these limits."""
_SHOWN = 80
"""The most characters of a row that an error shows."""


def convert_json(
    paths: Sequence[Path], target: Path, known: CsvOptions = NOTHING_SAID, counts: list[int] | None = None
) -> list[str]:
    """Write the values of JSON files to a Parquet file, in order; return notes about the files, one line each.

    Of the options, `types` counts. `counts` gets the number of rows of each file. Each object is a row, and each of its
    names a column. If a value is not an object, the only column is `json`. This takes two passes: the first finds the
    columns' types from all rows, the second writes the rows.

    Raises:
        InvalidInputError: a file is not JSON; the message says where.
    """
    counts = [] if counts is None else counts
    if sum(path.stat().st_size for path in paths) > QUICK and not known.types:
        with suppress(NotPlainError):
            counts += convert_lines(paths, target)
            return []
    work = _Conversion(paths, known)
    counts += work.look()
    return work.write(target)


class _Conversion:
    """The columns of the files, as found by `look`."""

    def __init__(self, paths: Sequence[Path], known: CsvOptions) -> None:
        self._paths = paths
        self._known = known
        self._root = Field()
        self._row = 0
        self._nulls = False
        """Whether a row is NULL."""
        self._twice: dict[str, int] = {}
        """Names that an object has twice, with the first such row."""
        self._notes: list[str] = []

    def look(self) -> list[int]:
        """Find the types of all rows; return the number of rows of each file."""
        counts = list[int]()
        for path in self._paths:
            before = self._row
            with _reading(path, twice=self._note_twice) as values:
                if not values.encoding.startswith("utf"):
                    self._notes.append(f"read as {values.encoding}; if letters are wrong, convert the file to UTF-8")
                for value in values:
                    self._row += 1
                    self._root.see(value, self._row)
                    self._nulls = self._nulls or value is None
            counts.append(self._row - before)
        return counts

    def _note_twice(self, name: str) -> None:
        if len(self._twice) < _CHUNK_ROWS:
            self._twice.setdefault(name, self._row + 1)

    def write(self, target: Path) -> list[str]:
        """Write the rows; return notes."""
        notes = Notes()
        objects = {*self._root.first} == {dict} and not self._nulls and bool(self._root.fields)
        names = list(self._root.fields) if objects else [_ONLY]
        new = column_names(names)
        columns = (
            [field.column(name, notes) for name, field in self._root.fields.items()]
            if objects
            else [self._root.column(_ONLY, notes)]
        )
        columns = self._forced(new, columns)
        schema = pa.schema([(name, column.type) for name, column in zip(new, columns, strict=True)])
        with table_writer(target, schema) as writer:
            for group in gathered(self._batches(names if objects else None, columns, schema)):
                writer.write_table(pa.Table.from_batches(group, schema))
        return self._notes + self._said(names, new) + notes.lines()

    def _forced(self, names: Sequence[str], columns: Sequence[Column]) -> list[Column]:
        """Return the columns, some of them with the types that the option `types` gives them."""
        wanted = {name.lower(): TYPES[kind] for name, kind in self._known.types}
        unknown = [name for name, _ in self._known.types if name.lower() not in {one.lower() for one in names}]
        if unknown:
            raise InvalidInputError(f"types: there is no column {unknown[0]}; the columns are {', '.join(names)}")
        return [
            Column(pa.string(), wanted[name.lower()], value_text) if name.lower() in wanted else column
            for name, column in zip(names, columns, strict=True)
        ]

    def _said(self, names: Sequence[str], new: Sequence[str]) -> list[str]:
        said = []
        if not self._row:
            said.append("it has no rows, so its only column is an empty json")
        if self._twice:
            name, row = next(iter(self._twice.items()))
            said.append(f"row {row:,} has the field {name} twice: the last value counts, here and in other rows")
        changed = [f"{old.strip() or 'no name'} → {name}" for old, name in zip(names, new, strict=True) if old != name]
        return [*said, f"renamed columns: {', '.join(changed)}"] if changed else said

    def _batches(
        self, names: Sequence[str] | None, columns: Sequence[Column], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files; `names` are those of the fields, None if each value is the only column."""
        for path in self._paths:
            with _reading(path, digits=True) as values:
                for rows in _chunks(values):
                    cells = [rows] if names is None else [[row.get(name) for row in rows] for name in names]
                    try:
                        arrays = [column.array(one) for column, one in zip(columns, cells, strict=True)]
                    except UnicodeError as error:
                        raise _half_pair(rows) from error
                    except pa.ArrowInvalid as error:
                        if not self._known.types:
                            raise
                        raise InvalidInputError(f"types: a column has another type: {error}") from error
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def _reading(path: Path, *, digits: bool = False, twice: Callable[[str], None] | None = None) -> Iterator[JsonValues]:
    try:
        with closing(JsonValues(path, digits=digits, twice=twice)) as values:
            yield values
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error}") from error


def _chunks(values: JsonValues) -> Iterator[list[Any]]:
    """Yield values in chunks whose rows and characters are bounded."""
    rows, left = list[Any](), _CHUNK_CHARACTERS
    for value in values:
        rows.append(value)
        left -= values.size
        if left < 0 or len(rows) == _CHUNK_ROWS:
            yield rows
            rows, left = [], _CHUNK_CHARACTERS
    if rows:
        yield rows


def _half_pair(rows: Sequence[Any]) -> InvalidInputError:
    """Return the error for a text with half of a surrogate pair, such as `D800`."""
    for row in rows:
        try:
            written_json(row).encode()
        except UnicodeError:
            found = json.dumps(row)[:_SHOWN]
            return InvalidInputError(f"a text has half of a surrogate pair: {found}")
    return InvalidInputError("a text has half of a surrogate pair")
