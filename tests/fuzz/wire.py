"""Flight calls as bare bytes, over grpcio: a client that may send anything."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import pyarrow as pa

_SERVICE = "/arrow.flight.protocol.FlightService/"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Said:
    """What the server answered: its status, all text that came with it, and the messages before it."""

    code: str
    text: str
    messages: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: the method, its messages and its headers."""

    method: str
    messages: Sequence[bytes]
    headers: Sequence[tuple[str, str | bytes]] = ()


class Wire:
    """One connection. Usable from one thread."""

    def __init__(self, address: str) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options)
        self._calls: dict[str, Any] = {}

    def send(self, sent: Sent, *, most: int = 3) -> Said:
        """Make a call and take up to `most` messages of its answer, then go."""
        call = self._call(sent.method)(iter(sent.messages), timeout=_SECONDS, metadata=tuple(sent.headers))
        taken: list[bytes] = []
        try:
            for message in call:
                taken.append(message)
                if len(taken) == most and sent.method == "DoGet":
                    call.cancel()
                    return Said("OK", "", taken)
        except grpc.RpcError as error:
            return Said(error.code().name, f"{error.details()}\n{_text(error.trailing_metadata())}", taken)
        return Said("OK", "", taken)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _call(self, method: str) -> Any:
        if method not in self._calls:  # one request is sent as a stream of one: on the wire that is the same
            self._calls[method] = self._channel.stream_stream(_SERVICE + method)
        return self._calls[method]


def _text(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    pairs = ((key, value) for key, value in metadata or ())
    return "\n".join(f"{k}: {v.decode('utf-8', 'replace') if isinstance(v, bytes) else v}" for k, v in pairs)


def varint(number: int) -> bytes:
    """Encode a number as protobuf does."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def field(number: int, value: bytes) -> bytes:
    """Encode a field of bytes."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def descriptor(command: bytes) -> bytes:
    """Encode a FlightDescriptor with a command."""
    return b"\x08\x02" + field(2, command)


def ticket(handle: bytes) -> bytes:
    """Encode a Ticket."""
    return field(1, handle)


def action(kind: str, body: bytes) -> bytes:
    """Encode an Action."""
    return field(1, kind.encode()) + field(2, body)


def body_of(result: bytes) -> bytes:
    """Return the body of an action's Result, its only field."""
    place = 1
    while result[place] & 0x80:
        place += 1
    return result[place + 1 :]


def flight_data(command: bytes | None, header: bytes, body: bytes) -> bytes:
    """Encode a FlightData."""
    first = b"" if command is None else field(1, descriptor(command))
    return first + field(2, header) + (field(1000, body) if body else b"")


def put_data(command: bytes) -> bytes:
    """Encode the FlightData of a DoPut without columns."""
    return flight_data(command, pa.schema([]).serialize().to_pybytes()[8:], b"")


def ipc_messages(table: pa.Table, compression: str | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield header and body of each IPC message of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        yield message.metadata.to_pybytes(), b"" if message.body is None else message.body.to_pybytes()
