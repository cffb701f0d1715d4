"""Record batches copied together into memory that goes back to the system as soon as the last reader drops it.

Arrow's and DataFusion's allocators can keep freed memory, and new memory from them costs a page fault for each 4 KiB.
"""

import mmap
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

_CHUNK_BYTES = 16 << 20
_SPARE_BYTES = 64 << 10
"""The room for the schema and the end of a chunk's stream; larger schemas get more."""


class RowsInMemory:
    """Batches of one schema, in chunks that each hold an Arrow stream. One thread at a time uses it."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: list[pa.Buffer] = []
        self._sink: pa.FixedSizeBufferWriter | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._left = 0

    def add(self, batch: pa.RecordBatch, expected: int = 0) -> None:
        """Copy a batch; `expected` bytes of further batches are likely to follow."""
        size = pa.ipc.get_record_batch_size(batch)
        if size > self._left:
            self._close_chunk()
            self._open_chunk(size, expected)
        if self._writer is not None:
            self._writer.write_batch(batch)
        self._left -= size

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Return all batches, in order; they are views of the copies. Add no more batches after it."""
        self._close_chunk()
        chunks, self._chunks = self._chunks, []
        return (batch for chunk in chunks for batch in pa.ipc.open_stream(chunk))

    def _open_chunk(self, size: int, expected: int) -> None:
        room = max(size, min(_CHUNK_BYTES, size + expected))
        self._left = room
        memory = pa.py_buffer(_memory(room + _SPARE_BYTES + 2 * self._schema.serialize().size))
        self._chunks.append(memory)
        self._sink = pa.FixedSizeBufferWriter(memory)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)

    def _close_chunk(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()
        self._writer = self._sink = None


def _memory(size: int) -> mmap.mmap:
    """Return private memory that is not used for anything else, in huge pages if the system has them."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    huge = getattr(mmap, "MADV_HUGEPAGE", None)
    if huge is not None and size >= _CHUNK_BYTES:
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(huge)
    return memory
