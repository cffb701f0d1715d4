"""The messages between a KV store and its clients: JSON for requests, record batches for bitstreams.

A ticket is `{"key", "codec"}`, the descriptor of an upload `{"key", "codec", "bytes"}`. The actions are `lookup`,
`status` and `delete`. A bitstream is sent as record batches with one column, `data`; each row is a part.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import InvalidInputError

DATA: Final = pa.schema([pa.field("data", pa.binary(), nullable=False)])
ACTIONS: Final = (
    ("lookup", 'Return the held bitstreams of chunks: {"keys": […]}; answers {"held": [{CODEC: BYTES, …}, …]}.'),
    ("status", "Return the store's contents, and its request counts since it was opened."),
    ("delete", 'Delete chunks: {"keys": […]}, or {"all": true}; answers {"deleted": BITSTREAMS}.'),
)


def packed(**fields: object) -> bytes:
    """Return the fields as a message."""
    return json.dumps(fields).encode()


def unpacked(message: bytes) -> Mapping[str, Any]:
    """Return the fields of a message.

    Raises:
        InvalidInputError: the bytes are not a message.
    """
    try:
        fields = json.loads(message or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("the request to the KV store is not JSON: send a JSON object") from error
    if not isinstance(fields, dict):
        raise InvalidInputError("the request to the KV store is not a JSON object: send an object")
    return fields


def batch_of(part: memoryview) -> pa.RecordBatch:
    """Return a part as a record batch, without copying it."""
    ends = pa.array([0, len(part)], pa.int32()).buffers()[1]
    data = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(part)])
    return pa.RecordBatch.from_arrays([data], schema=DATA)


def parts_of(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """Yield the parts in a batch, without copying them.

    Raises:
        InvalidInputError: the batch has other columns, or a part is NULL.
    """
    if batch.schema.types != DATA.types or batch.schema.names != DATA.names or batch.column(0).null_count:
        raise InvalidInputError(
            "a batch of a KV chunk has the wrong columns: send one column 'data' of bytes without NULL"
        )
    _, ends, data = batch.column(0).buffers()
    whole = memoryview(data or b"").cast("B")
    places = memoryview(ends or b"").cast("i")[batch.column(0).offset :][: batch.num_rows + 1]
    for start, stop in pairwise(places):
        yield whole[start:stop]
