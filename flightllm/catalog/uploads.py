"""Rows that clients send, or that queries computed, stored in in-memory tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import pyarrow as pa
from datafusion import DataFrame
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
Collect = Callable[[DataFrame], Iterable[pa.RecordBatch]]
"""Runs a query to its end; a caller's own can be cancelled, and then raises."""


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

    They are added together once `batches` has ended, or, where it raises, not at all.

    Raises:
        PermissionDeniedError: the table is a file, a view or a system table.
        SqlError: the rows do not fit the columns; known before the first batch is pulled.
    """
    target = store.writable(table).schema
    columns = columns or target.names
    if len(columns) != len(schema):
        raise SqlError(f"INSERT INTO {table.display} names {len(columns)} columns but gets {len(schema)}")
    unique = pa.schema([pa.field(f"c{index}", field.type) for index, field in enumerate(schema)])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=unique) for batch in batches)
    return _insert_rows(store, table, columns, unique, renamed)


def values(store: TableStore, table: TableName, text: str) -> DataFrame:
    """Plan the rows that INSERT … VALUES adds, with all columns of the table, each value cast to its column's type.

    VALUES by itself refuses a column of a text here and a timestamp there.
    """
    store.writable(table)
    context = store.context()
    try:
        (rows,) = context.sql_with_options(text, ROWS_ONLY).logical_plan().inputs()
        return context.create_dataframe_from_logical_plan(rows)
    except Exception as error:
        raise mapped_error(error) from error


def run_change(store: TableStore, name: TableName, text: str, counting: str, collect: Collect) -> int:
    """Run an UPDATE or DELETE of `name` already checked; return the number of rows changed.

    `counting` counts the rows to change, by way of `collect`. Where there are none, nothing is run: DataFusion takes
    a condition that it folds to false, such as `a = 1 AND a = 2`, for no condition at all and changes every row.
    The change itself is one step of DataFusion's, made or not made.
    """
    context = store.context()
    try:
        frame = context.sql_with_options(counting, QUERY_ONLY)
        if not _total(collect(frame)):
            return 0
        changed = _total(context.sql_with_options(text, ROWS_ONLY).collect())
    except Exception as error:
        raise mapped_error(error) from error
    store.changed(name)
    return changed


def _append(store: TableStore, name: TableName, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    target = store.writable(name).schema
    memory.check_columns(schema, target)
    fitted = memory.checked(batches, target, store.limits.upload_bytes)
    return _insert_rows(store, name, target.names, target, fitted)


def _insert_rows(
    store: TableStore, name: TableName, columns: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    plain = memory.plain_schema(schema)
    names = ", ".join(quoted(column) for column in columns)
    text = f"INSERT INTO {name.sql} ({names}) SELECT * FROM upload.upload.rows"
    _insertion(store, text, plain, [])
    stored = list(memory.checked(batches, plain, store.limits.upload_bytes))
    if not any(batch.num_rows for batch in stored):
        return 0
    try:
        added = _total(_insertion(store, text, plain, stored).collect())
    except Exception as error:
        raise mapped_error(error) from error
    store.changed(name)
    return added


def _insertion(store: TableStore, text: str, schema: pa.Schema, stored: Sequence[pa.RecordBatch]) -> DataFrame:
    """Plan an INSERT whose rows are those of `upload.upload.rows`."""
    context, upload, rows = store.context(), SharedCatalog.memory_catalog(), Schema.memory_schema()
    rows.register_table("rows", memory.memory_table(stored, schema))
    upload.register_schema("upload", rows)
    context.register_catalog_provider("upload", upload)
    try:
        return context.sql_with_options(text, ROWS_ONLY)
    except Exception as error:
        raise mapped_error(error) from error


def _total(batches: Iterable[pa.RecordBatch]) -> int:
    """Return the sum of the first column: DataFusion's count of changed rows."""
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
