"""Adds rows to tables: rows that clients send, or that queries compute."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import pyarrow as pa

from flightllm.catalog import memory
from flightllm.catalog.entries import Entry
from flightllm.catalog.insertion import Insertion
from flightllm.catalog.managed import add_rows, new_table
from flightllm.catalog.store import TableStore
from flightllm.catalog.stored_json import stored_json
from flightllm.common.arrow_types import marked
from flightllm.common.names import RESERVED, TableName
from flightllm.errors import InvalidInputError, SqlError
from flightllm.storage.rows import read_rows, write_rows

IngestMode = Literal["create", "append", "replace", "create_append"]


def ingest(
    store: TableStore,
    table: TableName,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    mode: IngestMode,
    owner: str,
) -> int:
    """Store all batches in a table in one step; return the number of rows. See `Catalog.ingest`."""
    if mode not in get_args(IngestMode):
        raise InvalidInputError(f"unknown mode {mode!r}: use one of {', '.join(get_args(IngestMode))}")
    if _exists(store, table, mode) and mode in {"append", "create_append"}:
        return _append(store, table, schema, batches)
    plain = marked(memory.plain_schema(schema), schema)
    rows = memory.checked(batches, plain, store.limits.upload_bytes)
    file = write_rows(store.folder, plain, stored_json(rows, plain))
    files = () if file is None else (file,)
    names = [file.name for file in files]
    try:
        store.folder.sync(names)
        with store.lock:
            if not (_exists(store, table, mode) and mode == "create_append"):
                store.put(new_table(table, plain, files, owner))
                return sum(file.rows for file in files)
        return _append(store, table, plain, read_rows([store.folder.file(name) for name in names], plain))
    finally:
        store.discard(names)


def insert(
    store: TableStore,
    table: TableName,
    columns: Sequence[str],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> int:
    """Add rows to the given columns (empty: all) of a table, matched by position; return their number.

    All rows are added together once `batches` has ended. If `batches` raises, no row is added.

    Raises:
        PermissionDeniedError: the table is a file, a view or a system table.
        SqlError: the rows do not fit the columns; raised before the first batch is pulled.
    """
    entry = store.writable(table)
    return add_rows(store, entry, fitted(store, entry, columns, schema, batches))


def fitted(
    store: TableStore, entry: Entry, columns: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Return a lazy iterator that turns rows of the given columns (empty: all) into rows of all columns.

    Raises:
        SqlError: the rows do not fit the columns; raised before the first batch is pulled.
    """
    target: pa.Schema = entry.schema
    names = columns or target.names
    if len(names) != len(schema):
        raise SqlError(
            f"INSERT INTO {entry.name.display} names {len(names)} columns, but each row has {len(schema)} values"
        )
    plain = memory.plain_schema(pa.schema([pa.field(f"c{index}", field.type) for index, field in enumerate(schema)]))
    renamed = (pa.RecordBatch.from_arrays(batch.columns, names=plain.names) for batch in batches)
    rows: Iterator[pa.RecordBatch] = memory.checked(renamed, plain, store.limits.upload_bytes)
    if list(names) != target.names or plain.types != target.types:
        rows = Insertion(entry, names, plain).rows(rows)
    return (memory.with_schema(batch, target) for batch in rows)


def _append(store: TableStore, name: TableName, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    entry = store.writable(name)
    memory.check_columns(schema, entry.schema)
    given = pa.schema([field for field in entry.schema if field.name in schema.names])
    rows: Iterator[pa.RecordBatch] = memory.checked(batches, given, store.limits.upload_bytes)
    if len(given) < len(entry.schema):  # the missing columns get their default, or NULL
        filled = Insertion(entry, given.names, given).rows(rows)
        rows = (memory.with_schema(batch, entry.schema) for batch in filled)
    return add_rows(store, entry, rows)


def _exists(store: TableStore, name: TableName, mode: IngestMode) -> Entry | None:
    """Return the table, or None if it does not exist; raise if `mode` cannot be applied to it."""
    if name.schema not in RESERVED:
        store.check_schema(name.schema)
        if name not in store.entries and mode != "append":
            return None
        if name in store.entries and mode == "create":
            raise InvalidInputError(
                f"the table {name.display!r} exists: append to it, replace it or choose another name"
            )
    return store.writable(name)
