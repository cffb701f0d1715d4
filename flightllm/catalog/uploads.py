"""Rows that clients send, or that queries computed, stored in in-memory tables."""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import pyarrow as pa
from datafusion import SessionContext, SQLOptions
from datafusion.catalog import Catalog as SharedCatalog
from datafusion.catalog import Schema

from flightllm.catalog import memory
from flightllm.catalog.contexts import QUERY_ONLY, ROWS_ONLY
from flightllm.catalog.entries import Entry
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.store import RESERVED, TableStore
from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.names import TableName, quoted

IngestMode = Literal["create", "append", "replace", "create_append"]


def ingest(
    store: TableStore, table: TableName, schema: pa.Schema, batches: Iterable[pa.RecordBatch], mode: IngestMode
) -> int:
    """Store batches in an in-memory table, all at once; return the number of rows. See `Catalog.ingest`."""
    if mode not in get_args(IngestMode):
        raise InvalidInputError(f"unknown mode {mode!r}: use one of {', '.join(get_args(IngestMode))}")
    if _exists(store, table, mode) and mode in {"append", "create_append"}:
        return _append(store, table, schema, batches)
    plain = memory.plain_schema(schema)
    stored = list(memory.checked(batches, plain, store.limits.upload_bytes))
    with store.lock:
        if _exists(store, table, mode) and mode == "create_append":
            return _append(store, table, plain, stored)
        store.put(Entry(table, "memory", plain, memory.memory_table(stored, plain)))
    return sum(batch.num_rows for batch in stored)


def insert(
    store: TableStore,
    table: TableName,
    columns: Sequence[str],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> int:
    """Add rows to the given columns (none: all) of a table, matched by position; return their number.

    Raises:
        SqlError: the rows do not fit the columns.
    """
    columns = columns or store.writable(table).schema.names
    if len(columns) != len(schema):
        raise SqlError(f"INSERT INTO {table.display} names {len(columns)} columns but gets {len(schema)}")
    unique = pa.schema([pa.field(f"c{index}", field.type) for index, field in enumerate(schema)])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=unique) for batch in batches)
    return _insert_rows(store, table, columns, unique, renamed)


def run_change(store: TableStore, text: str, counting: str | None) -> int:
    """Run an INSERT, UPDATE or DELETE already checked; return the number of rows changed.

    `counting` counts the rows an UPDATE or DELETE is to change. Where there are none, nothing is run: DataFusion takes
    a condition that it folds to false, such as `a = 1 AND a = 2`, for no condition at all and changes every row.
    """
    context = store.context()
    if counting is not None and not _first_column(context, counting, QUERY_ONLY):
        return 0
    return _changed(context, text)


def _append(store: TableStore, name: TableName, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    target = store.writable(name).schema
    memory.check_columns(schema, target)
    fitted = memory.checked(batches, target, store.limits.upload_bytes)
    return _insert_rows(store, name, target.names, target, fitted)


def _insert_rows(
    store: TableStore, name: TableName, columns: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    plain = memory.plain_schema(schema)
    stored = list(memory.checked(batches, plain, store.limits.upload_bytes))
    if not any(batch.num_rows for batch in stored):
        return 0
    context, upload, rows = store.context(), SharedCatalog.memory_catalog(), Schema.memory_schema()
    rows.register_table("rows", memory.memory_table(stored, plain))
    upload.register_schema("upload", rows)
    context.register_catalog_provider("upload", upload)
    names = ", ".join(quoted(column) for column in columns)
    return _changed(context, f"INSERT INTO {name.sql} ({names}) SELECT * FROM upload.upload.rows")


def _changed(context: SessionContext, text: str) -> int:
    return _first_column(context, text, ROWS_ONLY)


def _first_column(context: SessionContext, text: str, options: SQLOptions) -> int:
    """Return the sum of the first column of what `text` returns."""
    try:
        batches = context.sql_with_options(text, options).collect()
    except Exception as error:
        raise mapped_error(error) from error
    return sum(count for batch in batches for count in batch.column(0).to_pylist())


def _exists(store: TableStore, name: TableName, mode: IngestMode) -> bool:
    """Tell whether the table exists; raise where `mode` may not touch it."""
    if name.schema not in RESERVED:
        store.check_schema(name.schema)
        if name not in store.entries and mode != "append":
            return False
        if name in store.entries and mode == "create":
            raise InvalidInputError(
                f"the table {name.display!r} exists: append to it, replace it or choose another name"
            )
    store.writable(name)
    return True
