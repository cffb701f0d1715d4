"""DataRow messages of whole batches, made by Arrow: a batch's columns of cells are joined row by row."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.postgres.cells import binaries, catalog_values, texts

_MOST_ROWS = 4_096
_MOST_BYTES = 1 << 20
"""A piece of a batch has about this many bytes, so that few bytes wait for a slow client."""


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch that are small enough to be encoded at once."""
    rows = batch.num_rows
    each = max(1, min(_MOST_ROWS, rows * _MOST_BYTES // max(1, batch.nbytes)))
    for begin in range(0, rows, each):
        yield batch.slice(begin, each)


def data_rows(batch: pa.RecordBatch, codes: Sequence[int], interval_style: str = "postgres") -> bytes:
    """Return a batch's rows as DataRow messages; `codes` has each column's format: 0 for text, 1 for binary."""
    return framed(tuples(batch, codes, interval_style), b"D")


def tuples(batch: pa.RecordBatch, codes: Sequence[int], interval_style: str = "postgres") -> list[pa.Array]:
    """Return the parts of each row: the number of columns, then each value with its length."""
    columns = zip(batch.schema, batch.columns, codes, strict=True)
    cells = [
        binaries(catalog_values(field, column)) if code else texts(column, interval_style)
        for field, column, code in columns
    ]
    parts = [_fixed(np.full(batch.num_rows, len(cells), ">u2"))]
    for column in cells:
        length = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
        parts += [_fixed(length.astype(">i4")), pc.fill_null(column, b"")]
    return parts


def framed(parts: Sequence[pa.Array], kind: bytes) -> bytes:
    """Return a message for each row; its body is the row's parts, which have no NULLs."""
    size = np.full(len(parts[0]), 4, np.int64)
    for part in parts:
        size += pc.binary_length(part).to_numpy(zero_copy_only=False)
    head = np.empty(len(size), [("kind", "S1"), ("size", ">i4")])
    head["kind"], head["size"] = kind, size
    return _joined([_fixed(head), *parts])


def _joined(parts: Sequence[pa.Array]) -> bytes:
    """Return the bytes of arrays without NULLs, row after row."""
    together = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    _, offsets, data = together.buffers()
    if data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[together.offset : together.offset + len(together) + 1]
    return bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])


def _fixed(values: Any) -> pa.Array:
    """Return numpy's values as an array of bytes."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(values)])
