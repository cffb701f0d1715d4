"""Messages over a socket: a kind (1 byte), a length (8 bytes), and the body."""

import socket
import struct
from collections.abc import Iterator

import pyarrow as pa

from flightllm.sandbox.tasks import MessageKind

_HEADER = struct.Struct("<BQ")
HEADER_BYTES = _HEADER.size
PIECE_BYTES = 4 << 20
"""Batches of more bytes are sent in several messages."""


def send(link: socket.socket, kind: MessageKind, body: bytes | pa.Buffer = b"") -> None:
    """Send a message; raises `OSError` if the other end is closed."""
    view = memoryview(body)
    link.sendall(_HEADER.pack(kind, view.nbytes))
    link.sendall(view)


def header(data: bytes | bytearray) -> tuple[MessageKind, int]:
    """Return a message's kind, and the length of its body in bytes.

    Raises:
        ValueError: the bytes are not the header of a message.
    """
    kind, size = _HEADER.unpack(data)
    return MessageKind(kind), size


def receive(link: socket.socket) -> tuple[MessageKind, bytearray]:
    """Wait for a message; return its kind and body.

    Raises:
        EOFError: the other end is closed.
    """
    kind, size = header(_exactly(link, HEADER_BYTES))
    return kind, _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        if not (got := link.recv_into(view)):
            raise EOFError
        view = view[got:]
    return data


def encoded(batch: pa.RecordBatch, name: str = "") -> pa.Buffer:
    """Return a batch as an Arrow stream, with a name in its metadata."""
    schema = batch.schema.with_metadata({"name": name}) if name else batch.schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch)
    return sink.getvalue()


def decoded(data: bytes | bytearray | pa.Buffer) -> tuple[pa.RecordBatch, str]:
    """Return the batch of an Arrow stream, and its name."""
    with pa.ipc.open_stream(pa.py_buffer(data) if isinstance(data, bytes | bytearray) else data) as reader:
        name = (reader.schema.metadata or {}).get(b"name", b"").decode()
        return reader.read_next_batch(), name


def pieces(batch: pa.RecordBatch, most: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """Split a batch into parts of at most `most` bytes; a single larger row stays one part."""
    if batch.nbytes <= most or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half), most)
    yield from pieces(batch.slice(half), most)
