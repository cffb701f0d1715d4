"""Converts one CSV file, or several with the same columns, to one Parquet file."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.names import quoted
from flightllm.common.row_groups import gathered
from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import column_names, numbered
from flightllm.file_formats.headers import is_header
from flightllm.file_formats.kinds import ColumnKinds, cast, kinds_of
from flightllm.file_formats.options import TYPES, CsvOptions
from flightllm.file_formats.plain_csv import NotPlainError, plain_chunks
from flightllm.file_formats.rows import CsvRows, QuoteError
from flightllm.file_formats.table_writer import table_writer

_UNCLEAR = (
    "dates stay texts, because day and month can be in either order; write dates 'dmy' or 'mdy' in OPTIONS of CREATE"
    " EXTERNAL TABLE for"
)
_Reader = Callable[[Path, CsvRows], Iterator[pa.RecordBatch]]
"""Yields the rows of an open file after the first one, as batches of text columns."""
_MOST_QUOTED = 0.05
"""If more values per row than this have quotes around them, a file is not read without quotes."""
_QUOTED = '(?s)^".*"$'
_CHUNK_ROWS = 4_096
_CHUNK_CHARACTERS = 1 << 24
"""A chunk ends at the row that reaches one of these limits."""


def convert_csv(paths: Sequence[Path], known: CsvOptions, target: Path, counts: list[int] | None = None) -> list[str]:
    """Write the rows of CSV files to a Parquet file, in order; return notes about the files, one line each.

    `counts` gets the number of rows of each file. This takes two passes. The first writes all values as texts to a
    temporary file, and finds the columns' types. The second casts the texts to these types.

    Raises:
        InvalidInputError: a file has no columns or other columns than the first file, or a row has another width.
    """
    counts = [] if counts is None else counts
    try:
        return _converted(paths, known, target, counts)
    except QuoteError as error:
        if known.quote is not None:
            raise
        with suppress(InvalidInputError):
            notes = _converted(paths, replace(known, quote=""), target, counts, most_quoted=_MOST_QUOTED)
            line = str(error).partition(":")[0] if len(paths) > 1 else str(error).split(": ")[1]
            return [f"read with quotes as letters, because {line} has one inside a value", *notes]
        raise


def _converted(
    paths: Sequence[Path], known: CsvOptions, target: Path, counts: list[int], *, most_quoted: float = math.inf
) -> list[str]:
    try:
        return _convert(paths, known, target, counts, plain_chunks, most_quoted)
    except NotPlainError:
        return _convert(paths, known, target, counts, _chunks, most_quoted)


def _convert(
    paths: Sequence[Path], known: CsvOptions, target: Path, counts: list[int], chunks: _Reader, most_quoted: float
) -> list[str]:
    counts.clear()
    texts = target.with_suffix(".texts")
    try:
        found = _Texts(known, chunks)
        with pa.OSFile(str(texts), "wb") as sink, closing(found):
            for path in paths:
                before = found.rows
                try:
                    found.add(path, sink)
                    counts.append(found.rows - before)
                except InvalidInputError as error:
                    raise type(error)(f"{path.name}: {error}") from error
        if found.quoted > found.rows * most_quoted:
            raise InvalidInputError("values are quoted")
        found.write(texts, target)
        return found.notes
    finally:
        texts.unlink(missing_ok=True)


class _Texts:
    """The columns of the files as texts, and the types that fit them."""

    def __init__(self, known: CsvOptions, chunks: _Reader) -> None:
        self._known = known
        self._chunks = chunks
        self._decimal = known.decimal or "."
        self._given: list[str] = []
        """The first row of the first file."""
        self._header = True
        """Whether the first row has the column names."""
        self._late: pa.RecordBatch | None = None
        """The first row, where it has values instead of names: it is written before the others."""
        self._kinds: list[ColumnKinds] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.notes: list[str] = []

        self.rows = self.quoted = 0
        """The number of rows, and that of values that begin and end with a quote."""

    def close(self) -> None:
        """Close the file of texts."""
        if self._writer is not None:
            self._writer.close()

    def add(self, path: Path, sink: pa.NativeFile) -> None:
        """Add the rows of a file."""
        with CsvRows(path, self._known) as rows:
            try:
                self._add(path, rows, sink)
            except UnicodeError as error:  # half a surrogate pair, which some encodings let through
                raise rows.not_text(error) from error

    def _add(self, path: Path, rows: CsvRows, sink: pa.NativeFile) -> None:
        if not any(cell.strip() for cell in rows.first):
            raise InvalidInputError(
                "it has no columns, because its first line is empty: write the column names into the first line"
            )
        if self._known.encoding is None and not rows.encoding.startswith("utf"):
            self._note(f"read as {rows.encoding}; if letters are wrong, name another encoding by the option encoding")
        if rows.note:
            self._note(rows.note)
        if self._writer is None:
            self._begin(path, rows, sink)
            self._note_comments(rows)
            return
        order = self._order(rows.first)
        if not self._header:
            self._put(_row(rows.first, rows.nulls))
        for chunk in self._chunks(path, rows):
            self._put(pa.RecordBatch.from_arrays([chunk.column(place) for place in order], schema=chunk.schema))
        self._note_comments(rows)

    def _note_comments(self, rows: CsvRows) -> None:
        if rows.comments and self._known.comment is None:
            self._note("lines inside the table that begin with # are left out as comments")

    def _begin(self, path: Path, rows: CsvRows, sink: pa.NativeFile) -> None:
        """Take the columns of the first file, and decide whether its first row has their names."""
        self._given = rows.first
        commas = rows.dialect.delimiter == ";" and self._known.decimal is None
        self._kinds = [
            ColumnKinds(
                self._decimal,
                kinds_of(self._decimal, self._known.dates, commas_are_decimal=commas),
                commas_are_decimal=commas,
            )
            for _ in rows.first
        ]
        first = _row(rows.first, rows.nulls)
        self._writer = pa.ipc.new_stream(sink, first.schema)
        below = None
        for chunk in self._chunks(path, rows):
            self._put(chunk)
            below = below or chunk.slice(0, _CHUNK_ROWS)
        self._header = is_header(first, self._kinds, below) if self._known.header is None else self._known.header
        if self._header:
            return
        self._late = first
        self._see(first)
        if self._known.header is None:
            self._note(
                "the first line looks like values, so the columns are column1, column2, …; if it has names, set"
                " header 'true'"
            )

    @property
    def _names(self) -> list[str]:
        return column_names(self._given) if self._header else numbered(len(self._given))

    def _order(self, row: list[str]) -> Sequence[int]:
        """Return the order that brings a further file's columns into the order of the first file."""
        names = column_names(row) if self._header else numbered(len(row))
        if sorted(names) != sorted(self._names):
            raise InvalidInputError(
                f"its columns are {', '.join(names)}, but those of the first file are {', '.join(self._names)}: keep"
                " only files with the same columns in a folder"
            )
        return [names.index(name) for name in self._names]

    def _put(self, chunk: pa.RecordBatch) -> None:
        if self._writer is not None:
            self._writer.write_batch(chunk)
        self._see(chunk)

    def _see(self, chunk: pa.RecordBatch) -> None:
        self.rows += chunk.num_rows
        if not self._known.quote and self._known.quote is not None:
            self.quoted += sum(pc.sum(pc.match_substring_regex(one, _QUOTED)).as_py() or 0 for one in chunk.columns)
        for kind, column in zip(self._kinds, chunk.columns, strict=True):
            kind.see(column)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def write(self, texts: Path, target: Path) -> None:
        """Write the rows with their types; leave out columns without a name and without values."""
        full = {place for place, kind in enumerate(self._kinds) if kind.filled or kind.missing}
        left = [place for place, cell in enumerate(self._given) if not self._header or cell.strip() or place in full]
        names = self._names
        given = [self._given[place].strip() if self._header else names[place] for place in left]
        changed = [f"{old or 'no name'} → {names[place]}" for old, place in zip(given, left, strict=True)]
        changed = [change for change, old, place in zip(changed, given, left, strict=True) if old != names[place]]
        if changed:
            self._note(f"renamed columns: {', '.join(changed)}")
        if any(column.kind is not None and column.kind.guessed for column in self._kinds):
            for column in self._kinds:
                column.dots_group = column.has_groups_of_dots
        for place in left:
            self._note_commas(names[place], self._kinds[place].separators)
        self._note_notations([(names[place], self._kinds[place]) for place in left])
        schema = pa.schema([(names[place], self._kinds[place].type) for place in left])
        forced = self._forced(names, left)
        kinds = {place: self._kinds[place] for place in left}
        types = [forced.get(place, kind) for place, kind in zip(left, schema.types, strict=True)]
        schema = pa.schema(zip(schema.names, types, strict=True))
        with (
            table_writer(target, schema) as writer,
            pa.memory_map(str(texts)) as source,
            pa.ipc.open_stream(source) as stream,
        ):
            batches = chain([] if self._late is None else [self._late], stream)
            for group in gathered(_typed(batch, kinds, schema, forced) for batch in batches):
                writer.write_table(pa.Table.from_batches(group, schema))

    def _note_commas(self, name: str, separators: str) -> None:
        """Add a note if a text column seems to have numbers with decimal commas."""
        if separators:
            column = quoted(name)
            plain = f"replace({column}, '.', '')" if separators == ".," else column
            self._note(
                f"the column {name} stays text, although its values look like numbers with decimal commas: write"
                f" replace({plain}, ',', '.')::double, or set decimal ',' (--csv decimal=, in a command line, else in"
                " the OPTIONS of CREATE EXTERNAL TABLE)"
            )

    def _forced(self, names: Sequence[str], left: Sequence[int]) -> dict[int, pa.DataType]:
        """Return the types that the option `types` gives to columns."""
        places = {names[place].lower(): place for place in left}
        unknown = [name for name, _ in self._known.types if name.lower() not in places]
        if unknown:
            raise InvalidInputError(f"types: there is no column {unknown[0]}; the columns are {', '.join(names)}")
        return {places[name.lower()]: TYPES[kind] for name, kind in self._known.types}

    def _note_notations(self, columns: Sequence[tuple[str, ColumnKinds]]) -> None:
        """Add a note for each notation that was guessed, with the columns that have it."""
        said = dict[str, list[str]]()
        for name, kinds in columns:
            kind = kinds.kind
            if name.lower() in {given.lower() for given, _ in self._known.types}:
                continue
            if kind is None:
                if kinds.unclear_dates:
                    said.setdefault(_UNCLEAR, []).append(name)
                continue
            if kind.grouped:
                said.setdefault("commas separate thousands in", []).append(name)
            if kind.guessed:
                said.setdefault("commas are decimal in", []).append(name)
            if kind.written is not None:
                said.setdefault(f"read as {kind.written.shown}", []).append(name)
            if kinds.missing:
                said.setdefault(f"{', '.join(sorted(kinds.missing))} means NULL in", []).append(name)
        for what, names in said.items():
            self._note(f"{what}: {', '.join(names)}")


def _typed(
    batch: pa.RecordBatch, kinds: Mapping[int, ColumnKinds], schema: pa.Schema, forced: Mapping[int, pa.DataType]
) -> pa.RecordBatch:
    """Return the columns at some places with their types; `forced` has those that an option names."""
    columns = []
    for (place, one), field in zip(kinds.items(), schema, strict=True):
        try:
            if place in forced:
                columns.append(one.cast_to(batch.column(place), forced[place]))
            else:
                columns.append(cast(batch.column(place), one.kind, missing=bool(one.missing)))
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"types: the column {field.name} has another type: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _row(cells: Sequence[str], nulls: Collection[str]) -> pa.RecordBatch:
    """Return one row of texts as a batch."""
    columns = [pa.array([None if cell in nulls else cell], pa.string()) for cell in cells]
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(cells))])


def _chunks(_: Path, rows: CsvRows) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of text columns."""
    names = [str(place) for place in range(len(rows.first))]
    others = iter(rows)
    while chunk := list(_until_full(islice(others, _CHUNK_ROWS))):
        columns = [pa.array(column, pa.string()) for column in zip(*chunk, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _until_full(rows: Iterator[list[str | None]]) -> Iterator[list[str | None]]:
    left = _CHUNK_CHARACTERS
    for row in rows:
        yield row
        left -= sum(len(cell) for cell in row if cell is not None)
        if left < 0:
            return
