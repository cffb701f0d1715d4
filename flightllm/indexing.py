"""CREATE, REFRESH and DROP of vector indexes: the rows of a table, embedded by a query, become an index."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import CancelledError, InternalError, InvalidInputError, NotFoundError
from flightllm.llm.embed.base import Vectors
from flightllm.operators.relational import Batches
from flightllm.query import plan
from flightllm.services import Services
from flightllm.settings import Settings
from flightllm.sql.names import TableName, quoted
from flightllm.sql.statement import Statement
from flightllm.system import QueryRecord
from flightllm.vector.manifest import Manifest
from flightllm.vector.options import IndexOptions

if TYPE_CHECKING:
    from flightllm.vector.build import Part


def change_index(statement: Statement, record: QueryRecord, services: Services, settings: Settings) -> int:
    """Run a statement about a vector index; return the rows in it, or -1.

    Raises:
        CancelledError: the record was cancelled; the index is as it was.
        FlightLLMError: the statement is wrong.
    """
    indexes, name = services.indexes, statement.key or ""
    builder = _Builder(record, services, settings)
    there = name in indexes.names()
    match statement.kind:
        case "drop_index":
            if there or not statement.exists_ok:
                indexes.drop(name)
            return -1
        case "refresh_index":
            known = indexes.manifest(name)
            return builder.build(known.name, TableName(*known.table), known.column, known.options)
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


@dataclass(frozen=True, slots=True)
class _Builder:
    """What an index is built with."""

    record: QueryRecord
    services: Services
    settings: Settings

    def build(self, name: str, table: TableName, column: str, options: IndexOptions) -> int:
        """Build an index over a column and return the rows in it."""
        services = self.services
        schema = services.catalog.table(table).schema
        kept = pa.schema([_field(schema, table, one) for one in options.columns or schema.names])
        kind = _field(schema, table, column).type
        is_text = pa.types.is_string(kind)
        if not is_text and not _is_vector(kind):
            raise InvalidInputError(
                f"the column {column!r} of {table.display!r} is of type {kind}: an index is over a text column, or one"
                " of lists of floating-point numbers"
            )
        model, revision = self._model(options) if is_text else ("", "")
        source = services.catalog.revision(table)
        embedded = f"ai_embed({quoted(column)}, on_error => 'fail')" if is_text else quoted(column)
        chosen = ", ".join(f"{quoted(one)} AS c{place}" for place, one in enumerate([*kept.names, column]))
        query = plan(f"SELECT {chosen}, {embedded} AS vector FROM {table.sql}", services, self.settings)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(
            name, (table.schema, table.name), column, options, model, revision, 0, 0, 0, source, created, ""
        )
        with closing(query.run(self.record)) as batches:
            return services.indexes.build(manifest, kept, self._parts(batches, kept, is_text=is_text)).rows

    def _model(self, options: IndexOptions) -> tuple[str, str]:
        """Return the name and revision of the embedding model."""
        served = self.services.config.embedding.model
        if options.model not in {"", served}:
            raise InvalidInputError(
                f"this server has no embedding model {options.model!r}: it has {served!r}, as [embedding] model says"
            )
        return served, self.services.backends.embedder().revision

    def _parts(self, batches: Batches, kept: pa.Schema, *, is_text: bool) -> "Iterator[Part]":
        """Yield the rows that have a value, with their vectors.

        Raises:
            CancelledError: the statement was cancelled.
        """
        from flightllm.vector.build import Part

        for batch in batches:
            there = batch.filter(batch.column(len(kept)).is_valid())
            rows = pa.RecordBatch.from_arrays(there.columns[: len(kept)], schema=kept)
            texts = there.column(len(kept)) if is_text else None
            yield Part(rows, _vectors(there.column(len(kept) + 1)), texts, len(batch) - len(there))
        if self.record.cancelled.is_set():
            raise CancelledError("the statement was cancelled")


def _field(schema: pa.Schema, table: TableName, column: str) -> pa.Field:
    if column not in schema.names:
        raise NotFoundError(
            f"the table {table.display!r} has no column {column!r}; its columns are {', '.join(schema.names)}"
        )
    return schema.field(column)


def _is_vector(kind: pa.DataType) -> bool:
    types = pa.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _vectors(column: pa.Array) -> Vectors:
    """Return lists of equal length as rows.

    Raises:
        InvalidInputError: their lengths differ, or a number in them is NULL.
    """
    lengths = pc.list_value_length(column).unique()
    numbers = column.flatten()
    if len(lengths) > 1:
        raise InvalidInputError(f"the lists have different lengths: {', '.join(map(str, lengths[:5]))}, …")
    if numbers.null_count:
        raise InvalidInputError("a list has NULL in it")
    return np.asarray(numbers.to_numpy(), np.float32).reshape(len(column), -1 if len(column) else 0)
