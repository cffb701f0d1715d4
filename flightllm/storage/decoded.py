"""Decoded tables in memory: the rows of stored tables that were read lately, so that a next read decodes nothing.

The rows of a folder of links never change, so the folder is the key: a changed table has a new folder.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from flightllm.storage.rows_in_memory import RowsInMemory

_MOST_SEEN = 4_096
"""The most folders of which the cache knows that they were read."""


@dataclass(frozen=True, slots=True)
class DecodedCounts:
    """The bytes and tables in the cache, and how many reads found their table there or did not."""

    bytes: int
    tables: int
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class _Kept:
    columns: tuple[str, ...]
    batches: tuple[pa.RecordBatch, ...]
    bytes: int


class DecodedTables:
    """A cache of whole tables, at most `most` bytes, also counting tables that are being read in. Thread-safe.

    A table gets into the cache when it is read for the second time: many tables are read once, and memory that was not
    used before is slow. The table that was used least recently goes first. Readers keep the batches that they have.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        """The tables, the least recently used first."""
        self._filling: dict[Path, Filling] = {}
        self._seen: OrderedDict[Path, None] = OrderedDict()
        """The folders that were read, the one that was read first coming first."""
        self._bytes = 0
        self._hits = self._misses = 0

    def counts(self) -> DecodedCounts:
        """Return the present counts; `bytes` includes the tables that are being read in."""
        with self._lock:
            return DecodedCounts(self._bytes, len(self._kept), self._hits, self._misses)

    def find(self, folder: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a folder with these columns in this order, or None if they are not in the cache."""
        with self._lock:
            kept = self._kept.get(folder)
            if kept is None or not set(columns) <= set(kept.columns):
                self._misses += 1
                return None
            self._hits += 1
            self._kept.move_to_end(folder)
        places = [kept.columns.index(name) for name in columns]
        return (batch.select(places) for batch in kept.batches)

    def fill(self, folder: Path, columns: Sequence[str], estimate: int) -> "Filling | None":
        """Begin to read a table in; return None if this is its first read, if it cannot fit, or if another thread does.

        `estimate` is the number of bytes that the rows are likely to take. The caller must close the result.
        """
        with self._lock:
            first = folder not in self._seen
            self._seen[folder] = None
            while len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            if first or not 0 < estimate <= self._most or folder in self._filling:
                return None
            filling = self._filling[folder] = Filling(self, folder, tuple(columns), estimate)
        return filling

    def forget(self, folder: Path) -> None:
        """Drop the rows of a folder, whose table was changed or dropped; a read that is under way keeps nothing."""
        with self._lock:
            filling = self._filling.get(folder)
            if filling is not None:
                self._give_up(filling)
            self._drop(folder)
            self._seen.pop(folder, None)

    def shrink(self, size: int) -> int:
        """Drop tables until at least `size` bytes are free of them; return the bytes dropped."""
        with self._lock:
            before = self._bytes
            for filling in list(self._filling.values()):
                self._give_up(filling)
            while self._kept and before - self._bytes < size:
                self._drop(next(iter(self._kept)))
            return before - self._bytes

    def make_room(self, filling: "Filling", size: int) -> bool:
        """Take room for the next rows of a table that is being read in; return False once they are not wanted."""
        with self._lock:
            if filling.bytes + size > self._most:
                self._give_up(filling)
            while filling.wanted and self._bytes + size > self._most:
                if not self._kept:  # tables that other threads are reading in have the room
                    self._give_up(filling)
                    break
                self._drop(next(iter(self._kept)))
            if filling.wanted:
                filling.bytes += size
                self._bytes += size
            return filling.wanted

    def end(self, filling: "Filling", *, whole: bool) -> None:
        """End the reading of a table; keep its rows if they are `whole`."""
        with self._lock:
            if self._filling.get(filling.folder) is not filling:  # it has ended
                return
            del self._filling[filling.folder]
            if not whole:
                self._give_up(filling)
            if filling.wanted:
                filling.wanted = False
                self._drop(filling.folder)
                self._kept[filling.folder] = _Kept(filling.columns, filling.finish(), filling.bytes)

    def _give_up(self, filling: "Filling") -> None:
        if filling.wanted:
            filling.wanted = False
            self._bytes -= filling.bytes

    def _drop(self, folder: Path) -> None:
        kept = self._kept.pop(folder, None)
        if kept is not None:
            self._bytes -= kept.bytes


class Filling:
    """A table that is being read in. One thread at a time uses it; `DecodedTables` guards its fields."""

    def __init__(self, tables: DecodedTables, folder: Path, columns: tuple[str, ...], estimate: int) -> None:
        self.folder = folder
        self.columns = columns
        self.bytes = 0
        self.wanted = True
        """Whether the rows still belong into the cache."""
        self._tables = tables
        self._estimate = estimate
        self._rows: RowsInMemory | None = None

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Take the next rows, one array for each column; does nothing once the rows are not wanted any more."""
        batch = pa.RecordBatch.from_arrays(list(columns), names=list(self.columns))
        if not self.wanted or not self._tables.make_room(self, batch.nbytes):
            self._rows = None
            return
        if self._rows is None:
            self._rows = RowsInMemory(batch.schema)
        self._rows.add(batch, max(0, self._estimate - self.bytes))

    def finish(self) -> tuple[pa.RecordBatch, ...]:
        """Return all rows that were added."""
        rows, self._rows = self._rows, None
        return () if rows is None else tuple(rows.finish())

    def keep(self) -> None:
        """Put the table, of which all rows were added, into the cache. Idempotent."""
        self._tables.end(self, whole=True)

    def close(self) -> None:
        """Drop the rows unless they were kept. Idempotent."""
        self._tables.end(self, whole=False)
        self._rows = None
