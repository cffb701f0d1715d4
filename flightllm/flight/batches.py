"""Fit record batches to the wire: split large ones, and join small ones."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from flightllm.errors import InternalError

_SMALL = 128 << 10
"""The size in bytes below which a batch costs more to send than to copy."""


def sliced(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield `batch` in order, in zero-copy pieces of at most `limit` bytes; a larger row is a piece of its own."""
    if batch.num_rows <= 1 or batch.nbytes <= limit:
        if batch.num_rows:
            yield batch
        return
    pieces = -(-batch.nbytes // limit)
    step = max(1, batch.num_rows // pieces)
    for start in range(0, batch.num_rows, step):
        piece = batch.slice(start, step)
        if piece.num_rows > 1 and piece.nbytes > limit:  # rows differ in length: halve a piece that is still too large
            middle = piece.num_rows // 2
            yield from sliced(piece.slice(0, middle), limit)
            yield from sliced(piece.slice(middle), limit)
        else:
            yield piece


def joined(batches: Sequence[pa.RecordBatch], limit: int) -> pa.RecordBatch | pa.Table:
    """Return batches of one schema as one value: copied into one batch if they are small, else a table of them."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    return table.combine_chunks() if table.nbytes < min(limit, _SMALL * len(batches)) else table


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` under the schema promised to the client; the column types must agree.

    Raises:
        InternalError: the column types differ.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if batch.schema.types != schema.types:
        raise InternalError(f"the result has columns {batch.schema.types}, but {schema.types} were promised")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
