"""What a store of KV chunks and its clients say to each other: JSON for requests, batches of bytes for bitstreams.

A ticket is `{"key", "codec"}`, the descriptor of an upload `{"key", "codec", "bytes"}`; the actions are `lookup`,
`status` and `delete`. A bitstream travels as record batches of one column, `data`, each row a part of it.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import InvalidInputError

DATA: Final = pa.schema([pa.field("data", pa.binary(), nullable=False)])
ACTIONS: Final = (
    ("lookup", 'What is held of chunks: {"keys": […]}; answers {"held": [{CODEC: BYTES, …}, …]}.'),
    ("status", "What the store holds, and what became of requests since it was opened."),
    ("delete", 'Forget chunks: {"keys": […]}, or {"all": true}; answers {"deleted": BITSTREAMS}.'),
)


def packed(**fields: object) -> bytes:
    """Return a message."""
    return json.dumps(fields).encode()


def unpacked(message: bytes) -> Mapping[str, Any]:
    """Return what a message says.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        fields = json.loads(message or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("a request to a KV store is a JSON object; this one is no JSON") from error
    if not isinstance(fields, dict):
        raise InvalidInputError("a request to a KV store is a JSON object; this one is another value")
    return fields


def batch_of(part: memoryview) -> pa.RecordBatch:
    """Return the batch that takes a part to the other side, without copying it."""
    ends = pa.array([0, len(part)], pa.int32()).buffers()[1]
    data = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(part)])
    return pa.RecordBatch.from_arrays([data], schema=DATA)


def parts_of(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """Yield the parts that a batch brought, without copying them.

    Raises:
        InvalidInputError: it has other columns, or a part is NULL.
    """
    if batch.schema.types != DATA.types or batch.schema.names != DATA.names or batch.column(0).null_count:
        raise InvalidInputError("a KV chunk travels in batches of one column 'data' of bytes, none of them NULL")
    _, ends, data = batch.column(0).buffers()
    whole = memoryview(data or b"").cast("B")
    places = memoryview(ends or b"").cast("i")[batch.column(0).offset :][: batch.num_rows + 1]
    for start, stop in pairwise(places):
        yield whole[start:stop]
