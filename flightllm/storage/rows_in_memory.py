"""Record batches copied together into memory that goes back to the system as soon as the last reader drops it.

Arrow's and DataFusion's allocators can keep freed memory, and new memory from them costs a page fault for each 4 KiB.
"""

import mmap
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

_CHUNK_BYTES = 16 << 20
_SPARE_BYTES = 64 << 10
"""The room for the schema and the end of a chunk's stream; larger schemas get more."""


class Room:
    """The memory of all chunks that were not freed yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used = 0
        self._freed = deque[int]()
        """The sizes of chunks that were freed. Python frees them at any time, so freeing takes no lock."""

    def memory(self, size: int) -> pa.Buffer:
        """Return new private memory of a size, in huge pages if the system has them. It counts until it is freed.

        Raises:
            OSError: the system has no such memory.
        """
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with self._lock:
            self._used += size
        weakref.finalize(memory, self._freed.append, size).atexit = False
        huge = getattr(mmap, "MADV_HUGEPAGE", None)
        if huge is not None and size >= _CHUNK_BYTES:
            with suppress(OSError):  # a kernel without huge pages
                memory.madvise(huge)
        return pa.py_buffer(memory)

    def used(self) -> int:
        """Return the bytes of the chunks that were not freed."""
        with self._lock:
            while self._freed:
                self._used -= self._freed.popleft()
            return self._used


class RowsInMemory:
    """Batches of one schema, in chunks that each hold an Arrow stream. One thread at a time uses it."""

    def __init__(self, schema: pa.Schema, room: Room) -> None:
        self._schema = schema
        self._room = room
        self._chunks: list[pa.Buffer] = []
        self._sink: pa.FixedSizeBufferWriter | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._left = 0
        self._spare = _SPARE_BYTES + 2 * int(schema.serialize().size)
        self._sized: tuple[pa.RecordBatch | None, int] = (None, 0)
        """The batch that was sized last, and its size in a stream."""

    def needed(self, batch: pa.RecordBatch, expected: int = 0) -> int:
        """Return the size of the new chunk that a batch needs, or 0 if it fits into the last chunk.

        `expected` bytes of further batches are likely to follow.
        """
        size = self._size(batch)
        if size <= self._left:
            return 0
        return max(size, min(_CHUNK_BYTES, size + expected)) + self._spare

    def add(self, batch: pa.RecordBatch, new: int) -> None:
        """Copy a batch, into a new chunk of `new` bytes if `needed` said so."""
        if new:
            self._close_chunk()
            memory = self._room.memory(new)
            self._chunks.append(memory)
            self._left = new - self._spare
            self._sink = pa.FixedSizeBufferWriter(memory)
            self._writer = pa.ipc.new_stream(self._sink, self._schema)
        if self._writer is not None:
            self._writer.write_batch(batch)
        self._left -= self._size(batch)
        self._sized = (None, 0)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Return all batches, in order; they are views of the copies. Add no more batches after it."""
        self._close_chunk()
        chunks, self._chunks = self._chunks, []
        return (batch for chunk in chunks for batch in pa.ipc.open_stream(chunk))

    def _size(self, batch: pa.RecordBatch) -> int:
        if self._sized[0] is not batch:
            self._sized = (batch, int(pa.ipc.get_record_batch_size(batch)))
        return self._sized[1]

    def _close_chunk(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()
        self._writer = self._sink = None
