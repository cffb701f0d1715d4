"""Tables that clients create and change: each change writes new data files and then a new file list."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog

from flightllm.catalog.entries import Entry, StoredRows, check_bytes, check_files
from flightllm.catalog.store import TableStore
from flightllm.catalog.stored_json import stored_json
from flightllm.common.names import TableName
from flightllm.errors import InvalidInputError, LimitExceededError
from flightllm.storage.change_ids import new_id
from flightllm.storage.compaction import files_to_merge
from flightllm.storage.rows import StoredFile, read_rows, write_rows

_log = structlog.get_logger(__name__)


def new_table(
    name: TableName, schema: pa.Schema, files: Sequence[StoredFile], owner: str, definition: str = ""
) -> Entry:
    """Return the entry of a new table with these data files."""
    rows = StoredRows(tuple(files), new_id(), new_id(), definition)
    return Entry(name, "managed", schema, None, owner=owner, rows=rows)


def add_rows(store: TableStore, entry: Entry, batches: Iterable[pa.RecordBatch]) -> int:
    """Add rows with the table's schema at its end in one step; return their number.

    Small files at the end are merged with the new rows into one file.

    Raises:
        InvalidInputError: the table was dropped or replaced meanwhile.
        InternalError: a file of the table is damaged.
        LimitExceededError: the disk is full.
    """
    check_files(entry)
    added = write_rows(store.folder, entry.schema, stored_json(batches, entry.schema))
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
    """Merge the small files at a table's end; return the table's files, and append a new file to `written`.

    If the disk has no room for a merged file, the files stay as they are. The caller holds the table's lock.
    """
    kept = list(files)
    merged = files_to_merge([file.bytes for file in kept], store.folder.free_bytes())
    if merged > 1:
        store.compare(entry.name, kept[-merged:])
        merging = read_rows([store.folder.file(file.name) for file in kept[-merged:]], entry.schema)
        try:
            one = write_rows(store.folder, entry.schema, merging)
        except LimitExceededError:  # such as a quota, or another statement that took the room meanwhile
            _log.info("files are not merged, because the disk has no room", table=entry.name.display, files=merged)
            return kept
        kept[-merged:] = [] if one is None else [one]
        written += kept[len(kept) - (one is not None) :]
    return kept


def put_files(store: TableStore, entry: Entry, files: Sequence[StoredFile]) -> None:
    """Replace the files of a table. The caller holds the table's lock.

    Raises:
        InvalidInputError: the table was dropped or replaced meanwhile.
        InternalError: a file of the table was found damaged meanwhile.
        LimitExceededError: the disk is full.
    """
    before = rows_of(entry)
    store.folder.sync([file.name for file in files if file not in before.files])
    with store.lock:
        check_bytes(same_table(store, entry))
        rows = replace(before, files=tuple(files), revision=new_id(), folder=None)
        store.put(replace(entry, rows=rows, provider=None))


def same_table(store: TableStore, entry: Entry) -> Entry:
    """Return the present entry of a table.

    Raises:
        InvalidInputError: the table was dropped or replaced.
    """
    now = store.entries.get(entry.name)
    if now is None or now.rows is None or now.rows.identity != rows_of(entry).identity:
        raise InvalidInputError(
            f"the table {entry.name.display!r} was dropped or replaced meanwhile; nothing was added: run the"
            " statement again"
        )
    return now


def rows_of(entry: Entry) -> StoredRows:
    """Return the stored rows of a managed table; other tables have no rows of their own."""
    if entry.rows is None:
        raise InvalidInputError(f"{entry.name.display!r} is not a stored table, so its rows cannot be changed")
    return entry.rows
