"""CREATE, REFRESH and DROP of vector indexes: a query embeds the rows of a table, and these become an index."""

from collections.abc import Collection, Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.arrow_types import is_list
from flightllm.common.names import TableName, quoted
from flightllm.common.text import excerpt
from flightllm.config.session_settings import Settings
from flightllm.engines.embed.base import Vectors
from flightllm.errors import (
    CancelledError,
    EngineError,
    FlightLLMError,
    InternalError,
    InvalidInputError,
    NotFoundError,
)
from flightllm.execution.bind import SEARCH_CATALOG
from flightllm.execution.context import Services
from flightllm.execution.planning import plan
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.options import IndexOptions
from flightllm.vector.store import LONGEST_NAME, missing

if TYPE_CHECKING:
    from flightllm.vector.build import IndexedRows

_THERE, _NEW = f"{SEARCH_CATALOG}.public.there", f"{SEARCH_CATALOG}.public.new"
_SHOWN, _NAMED = 40, 3
"""An error shows at most this many characters of a value, and this many columns of a row."""
_OUTGROWN = 2
"""A refresh rebuilds the index if it would grow to more than this many times the rows that it was trained on."""


def change_index(statement: Statement, record: QueryRecord, services: Services, settings: Settings) -> int:
    """Run a statement about a vector index; return the number of rows in the index, or -1.

    Raises:
        CancelledError: the record was cancelled; the index is unchanged.
        FlightLLMError: the statement is wrong.
    """
    name = statement.key or ""
    if not 0 < len(name.encode()) <= LONGEST_NAME:
        raise InvalidInputError(f"the name of a vector index must have 1 to {LONGEST_NAME} bytes in UTF-8")
    with services.indexes.changing(name):
        return _change(name, statement, _Builder(record, services, settings))


def drop_indexes(tables: Collection[TableName], services: Services) -> None:
    """Drop the vector indexes over dropped tables: they must not serve a later table of the same name.

    Raises:
        FlightLLMError, OSError: an index cannot be dropped. This is the first error; the other indexes are dropped.
    """
    failed: Exception | None = None
    for name in services.indexes.names() if tables else ():
        try:
            with suppress(InvalidInputError, NotFoundError), services.indexes.changing(name):
                if TableName(*services.indexes.manifest(name).table) in tables:
                    services.indexes.drop(name)
        except (FlightLLMError, OSError) as error:
            failed = failed or error
    if failed is not None:
        raise failed


def check_no_index(tables: Collection[TableName], services: Services) -> None:
    """Raise `InvalidInputError` if a vector index is over one of the tables, which then cannot get another name."""
    found = list[tuple[str, TableName]]()
    for name in services.indexes.names() if tables else ():
        with suppress(InvalidInputError, NotFoundError):  # a damaged index is built again before its next use
            found.append((name, TableName(*services.indexes.manifest(name).table)))
    for name, table in found:
        if table in tables:
            raise InvalidInputError(
                f"the vector index {name!r} is over {table.display!r}: drop it, and create it again after the change"
            )


def _change(name: str, statement: Statement, builder: "_Builder") -> int:
    indexes = builder.services.indexes
    there = name in indexes.names()
    if there and _is_hidden(name, statement, builder.services):
        return -1
    if not builder.services.rights.unlimited:
        tables = {statement.target, TableName(*indexes.manifest(name).table) if there else None}
        for table in filter(None, tables):
            builder.services.catalog.check_owned(table)
    match statement.kind:
        case "drop_index":
            if there or not statement.exists_ok:
                indexes.drop(name)
            return -1
        case "refresh_index":
            return builder.refresh(indexes.manifest(name))
        case _ if statement.target is None:
            raise InternalError("CREATE VECTOR INDEX without a table")
        case _ if there and statement.exists_ok:
            return 0
        case _ if there and not statement.or_replace:
            raise InvalidInputError(
                f"the vector index {name!r} exists: write CREATE OR REPLACE VECTOR INDEX, or IF NOT EXISTS"
            )
    options = IndexOptions.read(statement.options)
    return builder.build(name, statement.target, statement.columns[0], options)


def _is_hidden(name: str, statement: Statement, services: Services) -> bool:
    """Return whether DROP … IF EXISTS names an index over a table that the user cannot read.

    The index is then treated as missing, so that its existence is not disclosed.

    Raises:
        NotFoundError: the user cannot read the table, and the statement is not DROP … IF EXISTS.
    """
    if services.rights.unlimited or statement.kind == "create_index":
        return False
    try:
        services.catalog.table(TableName(*services.indexes.manifest(name).table))
    except FlightLLMError:
        if statement.kind == "drop_index" and statement.exists_ok:
            return True
        raise missing(name) from None
    return False


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds and refreshes indexes for one statement."""

    record: QueryRecord
    services: Services
    settings: Settings

    def build(self, name: str, table: TableName, column: str, options: IndexOptions) -> int:
        """Build an index over a column; return the number of rows in the index."""
        manifest, kept = self._manifest(name, table, column, options)
        chosen = ", ".join(f"{quoted(one)} AS c{place}" for place, one in enumerate([*kept.names, column]))
        with closing(_not_only_failures(self._embedded(f"SELECT {chosen} FROM {table.sql}", manifest, kept))) as parts:
            return self.services.indexes.build(manifest, kept, parts).rows

    def refresh(self, known: IndexManifest) -> int:
        """Add the table's new rows to an index, or rebuild it; return the number of rows in the index.

        `_new_rows` decides which of the two is possible.
        """
        table = TableName(*known.table)
        manifest, kept = self._manifest(known.name, table, known.column, known.options)
        new = self._new_rows(known, manifest, kept)
        if new is None:
            return self.build(known.name, table, known.column, known.options)
        nulls = self._run(f"SELECT count(*) AS c0 FROM {table.sql} WHERE {quoted(known.column)} IS NULL")
        manifest = replace(manifest, nulls=nulls.column(0)[0].as_py())
        chosen = ", ".join([*(f"c{place}" for place in range(len(kept))), f"c{kept.names.index(known.column)} AS text"])
        with closing(self._embedded(f"SELECT {chosen} FROM {_NEW}", manifest, kept, {_NEW: new})) as parts:
            return self.services.indexes.extend(manifest, kept, parts).rows

    def _manifest(
        self, name: str, table: TableName, column: str, options: IndexOptions
    ) -> tuple[IndexManifest, pa.Schema]:
        """Return the manifest of an index over a column, with row counts of 0, and the schema of the kept columns."""
        schema = self.services.catalog.table(table).schema
        kept = pa.schema([_field(schema, table, one) for one in options.columns or schema.names])
        kind = _field(schema, table, column).type
        if options.on_error != "fail" and not pa.types.is_string(kind):
            raise InvalidInputError(
                f"the option on_error is for an index over texts, but {column!r} is of type {kind}: leave it out"
            )
        if not pa.types.is_string(kind) and not _is_vector(kind):
            raise InvalidInputError(
                f"the column {column!r} of {table.display!r} is of type {kind}: index a text column, or a"
                " column of lists of floating-point numbers"
            )
        model, revision = self._model(options) if pa.types.is_string(kind) else ("", "")
        source = self.services.catalog.revision(table)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        named = (table.schema, table.name)
        return IndexManifest(name, named, column, options, model, revision, 0, 0, 0, 0, source, created, ""), kept

    def _new_rows(self, known: IndexManifest, wanted: IndexManifest, kept: pa.Schema) -> pa.Table | None:
        """Return the table's rows that an index lacks; None if the index must be rebuilt.

        A rebuild is necessary in these cases:

        - the model or the columns changed, or an indexed row changed or is gone
        - the index is empty, cannot be opened, or would outgrow its training rows (`_OUTGROWN`)
        - the rows cannot be compared: they have nested columns, or the index does not keep the indexed column
        """
        same = (known.model, known.revision) == (wanted.model, wanted.revision)
        if not (same and known.rows and known.column in kept.names) or any(map(pa.types.is_nested, kept.types)):
            return None
        try:
            there = self.services.indexes.open(known.name).rows
        except InvalidInputError:
            return None
        if not there.schema.equals(kept):
            return None
        now, before = (_numbered(kept, known.column, source) for source in (TableName(*known.table).sql, _THERE))
        if self._run(f"{before} EXCEPT {now}", {_THERE: there}).num_rows:
            return None
        new = self._run(f"{now} EXCEPT {before}", {_THERE: there})
        return new if known.rows + new.num_rows <= _OUTGROWN * known.trained else None

    def _run(self, sql: str, tables: Mapping[str, pa.Table] = MappingProxyType({})) -> pa.Table:
        """Run a query to its end; return its rows.

        Raises:
            CancelledError: the statement was cancelled.
        """
        query = plan(ParsedText(sql), self.services, self.settings, tables)
        with closing(query.run(self.record)) as batches:
            found = pa.Table.from_batches(batches, query.schema)
        self._check_cancelled()
        return found

    def _embedded(
        self, rows: str, manifest: IndexManifest, kept: pa.Schema, tables: Mapping[str, pa.Table] = MappingProxyType({})
    ) -> "Generator[IndexedRows]":
        """Yield the rows of a query with their vectors. The query's last column is the one to index.

        Rows where this column is NULL are left out, and each part counts them. So are rows that the embedding model
        rejects, with the option `on_error` "null".

        Raises:
            CancelledError: the statement was cancelled.
            EngineError: the model rejects a text, and the option is "fail".
        """
        from flightllm.vector.build import IndexedRows

        vector = "ai_embed(indexed, on_error => 'struct')" if manifest.model else "indexed"
        columns = [f"c{place}" for place in range(len(kept))]
        text = f"SELECT *, {vector} AS vector FROM ({rows}) AS r({', '.join([*columns, 'indexed'])})"
        query = plan(ParsedText(text), self.services, self.settings, tables)
        with closing(query.run(self.record)) as batches:
            for batch in batches:
                indexed = batch.column(len(kept))
                there = batch.filter(indexed.is_valid()) if indexed.null_count else batch
                whole = _with_vectors(there, kept, manifest) if manifest.model else there
                found = pa.RecordBatch.from_arrays(whole.columns[: len(kept)], schema=kept)
                texts = whole.column(len(kept)) if manifest.model else None
                vectors = whole.column(len(kept) + 1)
                vectors = pc.struct_field(vectors, "value") if manifest.model else vectors
                nulls, failed = len(batch) - len(there), len(there) - len(whole)
                yield IndexedRows(found, _vectors(vectors), texts, nulls, failed)
        self._check_cancelled()

    def _check_cancelled(self) -> None:
        if self.record.cancelled.is_set():
            raise CancelledError("the statement was cancelled")

    def _model(self, options: IndexOptions) -> tuple[str, str]:
        """Return the name and revision of the embedding model."""
        served = self.services.config.embedding.model
        if options.model not in {"", served}:
            raise InvalidInputError(
                f"this server has no embedding model {options.model!r}: it serves"
                f" {served!r}, which [embedding] model sets"
            )
        return served, self.services.backends.embedder().revision


def _numbered(kept: pa.Schema, column: str, source: str) -> str:
    """Return a query for the rows that have a value in `column`, with a number for each copy of equal rows.

    The numbers make equal rows distinct, so that EXCEPT keeps duplicates.
    """
    names = [quoted(name) for name in kept.names]
    shown = ", ".join(f"{name} AS c{place}" for place, name in enumerate(names))
    number = f"row_number() OVER (PARTITION BY {', '.join(names)}) AS copy"
    return f"SELECT {shown}, {number} FROM {source} WHERE {quoted(column)} IS NOT NULL"


def _field(schema: pa.Schema, table: TableName, column: str) -> pa.Field:
    if column not in schema.names:
        raise NotFoundError(
            f"the table {table.display!r} has no column {column!r}; its columns are {', '.join(schema.names)}"
        )
    return schema.field(column)


def _is_vector(kind: pa.DataType) -> bool:
    return is_list(kind) and bool(pa.types.is_floating(kind.value_type))


def _with_vectors(rows: pa.RecordBatch, kept: pa.Schema, manifest: IndexManifest) -> pa.RecordBatch:
    """Return the rows that have a vector. After the kept columns come the text, and the vector with its error.

    Raises:
        EngineError: a row has no vector, and the option `on_error` of the index is "fail".
    """
    errors = pc.struct_field(rows.column(len(kept) + 1), "error")
    if not pc.any(errors.is_valid()).as_py():
        return rows
    if manifest.options.on_error == "fail":
        place = pc.index(errors.is_valid(), value=True).as_py()
        shown = {name: rows.column(number)[place].as_py() for number, name in enumerate(kept.names)}
        shown = {manifest.column: rows.column(len(kept))[place].as_py(), **shown}
        row = ", ".join(f"{name} = {excerpt(repr(value), _SHOWN)}" for name, value in list(shown.items())[:_NAMED])
        raise EngineError(
            f"the row with {row} has no vector: {errors[place].as_py()}; correct its text, or build the index over the"
            " other rows with CREATE OR REPLACE VECTOR INDEX … OPTIONS (on_error 'null')"
        )
    return rows.filter(errors.is_null())


def _not_only_failures(parts: "Generator[IndexedRows]") -> "Generator[IndexedRows]":
    """Yield all parts.

    Raises:
        EngineError: all rows failed, so the cause is not in the rows.
    """
    rows = failed = 0
    with closing(parts):
        for part in parts:
            rows, failed = rows + len(part.rows), failed + part.failed
            yield part
    if failed and not rows:
        raise EngineError(
            f"the embedding model rejected all {failed:,} texts, so there is nothing to index: build the index with"
            " on_error 'fail' to see why"
        )


def _vectors(column: pa.Array) -> Vectors:
    """Return an array of lists of equal length as a matrix, one row per list.

    Raises:
        InvalidInputError: their lengths differ, or a number in them is NULL.
    """
    lengths = pc.list_value_length(column).unique()
    numbers = column.flatten()
    if len(lengths) > 1:
        raise InvalidInputError(f"the lists have different lengths: {', '.join(map(str, lengths[:5]))}, …")
    if numbers.null_count:
        raise InvalidInputError("a list contains NULL: write a number for each element")
    return np.asarray(numbers.to_numpy(), np.float32).reshape(len(column), -1 if len(column) else 0)
