"""Decoded tables in memory: the rows of stored tables that were read lately, so that a next read decodes nothing.

The rows of a folder of links never change, so the folder is the key: a changed table has a new folder.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import structlog

from flightllm.common.newest import Newest
from flightllm.storage.rows_in_memory import Room, RowsInMemory

_MOST_NAMES = 4_096
"""The most folders of which the cache knows that they were read or do not fit, and the most tables in the cache."""
_STALLED_SECONDS = 10.0
"""A copy that got no rows for this time leaves its place to another reader."""
_PAUSE_SECONDS = 60.0
"""After memory was short, the cache takes no table for this time."""

_Key: TypeAlias = tuple[Path, tuple[str, ...]]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DecodedCounts:
    """The bytes and tables in the cache, and how many reads found their table there or did not."""

    bytes: int
    tables: int
    hits: int
    misses: int


class DecodedTables:
    """A cache of whole tables, at most `most` bytes, also counting tables that are being copied. Thread-safe.

    A table gets into the cache when it is read for the second time: many tables are read once, and memory that was not
    used before is slow. The table that was used least recently goes first. Readers keep the batches that they have;
    the memory of a dropped table counts until its last reader ends.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        """Python's garbage collector can close a reader in a thread that holds the lock; so readers never take it."""
        self._room = Room()
        self._kept: OrderedDict[_Key, tuple[pa.RecordBatch, ...]] = OrderedDict()
        """The tables, the least recently used first."""
        self._columns: dict[Path, list[tuple[str, ...]]] = {}
        """The columns of each folder in `_kept`."""
        self._copies: dict[Path, TableCopy] = {}
        self._ended = deque[TableCopy]()
        """Ended copies that `_copies` still has."""
        self._seen = Newest[Path, None](_MOST_NAMES)
        """The folders that were read, the least recently read first."""
        self._too_large = Newest[_Key, None](_MOST_NAMES)
        """The tables that did not fit, the oldest first."""
        self._pause_until = 0.0
        self._hits = self._misses = 0

    @property
    def is_on(self) -> bool:
        """Return whether the cache can take a table."""
        return self._most > 0

    def counts(self) -> DecodedCounts:
        """Return the present counts; `bytes` includes tables that are being copied, and those with late readers."""
        with self._lock:
            return DecodedCounts(self._room.used(), len(self._kept), self._hits, self._misses)

    def find(self, folder: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a folder with these columns in this order, or None if they are not in the cache."""
        wanted = set(columns)
        with self._lock:
            names = next((names for names in self._columns.get(folder, ()) if wanted <= set(names)), None)
            if names is None:
                self._misses += 1
                return None
            self._hits += 1
            self._kept.move_to_end((folder, names))
            batches = self._kept[folder, names]
        places = [names.index(name) for name in columns]
        return (batch.select(places) for batch in batches)

    def start_copy(self, folder: Path, columns: Sequence[str], estimate: int) -> "TableCopy | None":
        """Start to copy a table into memory, while a query reads the table; the caller must close the copy.

        Return None if this is the table's first read, if it cannot fit, or if another thread copies it.

        `estimate` is the number of bytes that the rows are likely to take.
        """
        names = tuple(columns)
        with self._lock:
            self._remove_ended()
            first = folder not in self._seen
            self._seen[folder] = None
            unfit = not 0 < estimate <= self._most or (folder, names) in self._too_large
            if first or unfit or time.monotonic() < self._pause_until:
                return None
            other = self._copies.get(folder)
            if other is not None:
                if time.monotonic() - other.moved < _STALLED_SECONDS:
                    return None
                other.give_up()
            copy = self._copies[folder] = TableCopy(self, self._room, folder, names, estimate)
        return copy

    def forget(self, folder: Path) -> None:
        """Drop the rows of a folder, whose table was changed or dropped; a read that is under way keeps nothing."""
        with self._lock:
            copy = self._copies.pop(folder, None)
            if copy is not None:
                copy.give_up()
            for names in list(self._columns.get(folder, ())):
                self._drop((folder, names))
            self._seen.pop(folder, None)

    def shrink(self, size: int) -> int:
        """Drop tables until at least `size` bytes are free of them; return the bytes that went back to the system.

        For the next minute the cache takes no further table.
        """
        with self._lock:
            before = self._room.used()
            if not before:
                return 0
            self._pause_until = time.monotonic() + _PAUSE_SECONDS
            while self._kept and before - self._room.used() < size:
                self._drop(next(iter(self._kept)))
            while self._copies and before - self._room.used() < size:
                self._copies.popitem()[1].give_up()
            return before - self._room.used()

    def make_room(self, copy: "TableCopy", size: int) -> bool:
        """Drop tables to have `size` more bytes for a table that is being copied; return False if that fails."""
        with self._lock:
            if copy.bytes + size > self._most:
                self._too_large[copy.folder, copy.columns] = None
                return False
            while self._room.used() + size > self._most:
                if not self._kept:  # tables that other threads copy have the room, or late readers
                    return False
                self._drop(next(iter(self._kept)))
            return copy.wanted

    def keep(self, copy: "TableCopy", batches: tuple[pa.RecordBatch, ...]) -> None:
        """Put a table into the cache, unless it was changed meanwhile."""
        with self._lock:
            if self._copies.get(copy.folder) is not copy or not copy.wanted:
                return
            del self._copies[copy.folder]
            known = self._columns.setdefault(copy.folder, [])
            for names in [names for names in known if set(names) <= set(copy.columns)]:
                self._drop((copy.folder, names))
            self._columns.setdefault(copy.folder, []).append(copy.columns)
            self._kept[copy.folder, copy.columns] = batches
            while len(self._kept) > _MOST_NAMES:
                self._drop(next(iter(self._kept)))

    def note_ended(self, copy: "TableCopy") -> None:
        """Note that a copy has ended. Takes no lock, because the garbage collector can call it at any time."""
        self._ended.append(copy)

    def _remove_ended(self) -> None:
        while self._ended:
            copy = self._ended.popleft()
            if self._copies.get(copy.folder) is copy:
                del self._copies[copy.folder]

    def _drop(self, key: _Key) -> None:
        self._kept.pop(key, None)
        folder, names = key
        known = self._columns.get(folder, [])
        if names in known:
            known.remove(names)
        if not known:
            self._columns.pop(folder, None)


class TableCopy:
    """A reader's copy of a table for the cache. One thread at a time adds rows; others can only give the copy up."""

    def __init__(
        self, tables: DecodedTables, room: Room, folder: Path, columns: tuple[str, ...], estimate: int
    ) -> None:
        self.folder = folder
        self.columns = columns
        self.bytes = 0
        """The memory of the rows so far."""
        self.wanted = True
        """Whether the rows still belong into the cache."""
        self.moved = time.monotonic()
        """When the last rows came."""
        self._tables = tables
        self._room = room
        self._left = estimate
        """The bytes that are likely to come."""
        self._rows: RowsInMemory | None = None

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Take the next rows, one array for each column; does nothing once the rows are not wanted any more.

        A failure only ends the copy: the query goes on.
        """
        if not self.wanted:
            return
        self.moved = time.monotonic()
        try:
            self._take(pa.RecordBatch.from_arrays(list(columns), names=list(self.columns)))
        except (pa.ArrowException, OSError, MemoryError) as error:
            _log.warning("a table's rows are not kept in memory", error=str(error))
            self.give_up()
        if not self.wanted:  # another thread gave the copy up meanwhile
            self._rows = None

    def _take(self, batch: pa.RecordBatch) -> None:
        rows = self._rows
        if rows is None:
            rows = self._rows = RowsInMemory(batch.schema, self._room)
        self._left = max(0, self._left - batch.nbytes)
        needed = rows.needed(batch, self._left)
        if needed and not self._tables.make_room(self, needed):
            self.give_up()
            return
        self.bytes += needed
        rows.add(batch, needed)

    def keep(self) -> None:
        """Put the table, of which all rows were added, into the cache. Idempotent."""
        rows = self._rows
        if not self.wanted or rows is None:
            return
        try:
            batches = tuple(rows.finish())
        except (pa.ArrowException, OSError, MemoryError) as error:
            _log.warning("a table's rows are not kept in memory", error=str(error))
        else:
            self._tables.keep(self, batches)
        self.close()

    def give_up(self) -> None:
        """Free the rows: they are not wanted any more. Any thread can call it."""
        self.wanted = False
        self._rows = None

    def close(self) -> None:
        """Drop the rows unless they were kept. Idempotent."""
        self.give_up()
        self._tables.note_ended(self)
