"""Tables that clients make and change: each change writes new files and then a new list of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa

from flightllm.catalog.entries import Entry, StoredRows, check_files
from flightllm.catalog.store import TableStore
from flightllm.common.names import TableName
from flightllm.errors import InvalidInputError
from flightllm.storage.compaction import files_to_merge
from flightllm.storage.rows import StoredFile, read_rows, write_rows


def new_table(
    name: TableName, schema: pa.Schema, files: Sequence[StoredFile], owner: str, definition: str = ""
) -> Entry:
    """Return the entry of a table made anew, whose files are on disk."""
    rows = StoredRows(tuple(files), uuid4().hex, uuid4().hex, definition)
    return Entry(name, "managed", schema, None, owner=owner, rows=rows)


def add_rows(store: TableStore, entry: Entry, batches: Iterable[pa.RecordBatch]) -> int:
    """Add rows of just the table's schema at its end, all together; return their number.

    Small files at the end become one with them.

    Raises:
        InvalidInputError: the table was dropped or made anew meanwhile.
        InternalError: a file of the table is damaged.
        LimitExceededError: the disk is full.
    """
    check_files(entry)
    added = write_rows(store.folder, entry.schema, batches)
    if added is None:
        return 0
    written = [added]
    try:
        with store.folder.readers.open(), store.rewriting(rows_of(entry)):
            now = same_table(store, entry)
            put_files(store, now, merge_small(store, now, [*rows_of(now).files, added], written))
    finally:
        store.discard(file.name for file in written)
    return added.rows


def merge_small(
    store: TableStore, entry: Entry, files: Sequence[StoredFile], written: list[StoredFile]
) -> list[StoredFile]:
    """Return a table's files with small ones at the end as one, for whoever holds its lock; it joins `written`."""
    kept = list(files)
    merged = files_to_merge([file.bytes for file in kept])
    if merged > 1:
        merging = read_rows([store.folder.file(file.name) for file in kept[-merged:]], entry.schema)
        one = write_rows(store.folder, entry.schema, merging)
        kept[-merged:] = [] if one is None else [one]
        written += kept[len(kept) - (one is not None) :]
    return kept


def put_files(store: TableStore, entry: Entry, files: Sequence[StoredFile]) -> None:
    """Put other files in place of a table's, for whoever holds its lock.

    Raises:
        InvalidInputError: the table was dropped or made anew meanwhile.
        LimitExceededError: the disk is full.
    """
    before = rows_of(entry)
    store.folder.sync([file.name for file in files if file not in before.files])
    with store.lock:
        same_table(store, entry)
        rows = replace(before, files=tuple(files), revision=uuid4().hex, folder=None)
        store.put(replace(entry, rows=rows, provider=None))


def same_table(store: TableStore, entry: Entry) -> Entry:
    """Return an entry as it is now.

    Raises:
        InvalidInputError: the table was dropped or made anew.
    """
    now = store.entries.get(entry.name)
    if now is None or now.rows is None or now.rows.identity != rows_of(entry).identity:
        raise InvalidInputError(
            f"the table {entry.name.display!r} was dropped or made anew meanwhile; nothing was added"
        )
    return now


def rows_of(entry: Entry) -> StoredRows:
    """Return the rows of a managed table; another one has none."""
    if entry.rows is None:
        raise InvalidInputError(f"{entry.name.display!r} has no rows of its own")
    return entry.rows
