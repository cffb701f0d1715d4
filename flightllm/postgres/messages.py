"""Messages of the protocol: the parts of a client's message, and the bytes of the server's messages."""

import struct
from collections.abc import Mapping, Sequence

from flightllm.postgres.failures import WireError

INT32, INT16 = struct.Struct("!i"), struct.Struct("!h")
PROTOCOL, TLS_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 3 << 16, 80_877_103, 80_877_104, 80_877_102
"""Versions in the first message of a connection; the last three ask for something else than a login."""
IDLE, OPEN, FAILED = b"I", b"T", b"E"
"""States of a transaction in ReadyForQuery."""


class Body:
    """The parts of one message, read from left to right.

    Raises:
        WireError: the message ends too early, or a text is not UTF-8.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise malformed("it ends too early")
        found = self._data[self._at : end]
        self._at = end
        return found

    def int32(self) -> int:
        """Return a signed number of four bytes."""
        return int(INT32.unpack(self.take(4))[0])

    def int16(self) -> int:
        """Return a signed number of two bytes."""
        return int(INT16.unpack(self.take(2))[0])

    def count(self) -> int:
        """Return an unsigned number of two bytes: how many parts follow."""
        return int.from_bytes(self.take(2))

    def text(self) -> str:
        """Return the text up to the next zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise malformed("a text has no end")
        found = self._data[self._at : end]
        self._at = end + 1
        return decoded(found)

    def value(self) -> bytes | None:
        """Return a value with its length before it; None for NULL."""
        size = self.int32()
        return None if size == -1 else self.take(size)

    def rest(self) -> bytes:
        """Return all further bytes."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Check that nothing follows."""
        if self._at != len(self._data):
            raise malformed("more bytes follow")


def decoded(data: bytes) -> str:
    """Return bytes as text.

    Raises:
        WireError: they are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError("22021", f"invalid byte sequence for encoding UTF8: 0x{data[error.start]:02x}") from error


def malformed(what: str) -> WireError:
    """Return the error for a message that cannot be read."""
    return WireError("08P01", f"invalid message of the protocol: {what}")


def message(kind: bytes, *parts: bytes) -> bytes:
    """Return a message with its type and length."""
    body = b"".join(parts)
    return kind + INT32.pack(len(body) + 4) + body


def text(value: str) -> bytes:
    """Return a text as messages have it; a zero byte would end it."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATED = message(b"R", INT32.pack(0))
ASK_PASSWORD = message(b"R", INT32.pack(3))
PARSED, BOUND, CLOSED = message(b"1"), message(b"2"), message(b"3")
NO_DATA, SUSPENDED, EMPTY = message(b"n"), message(b"s"), message(b"I")
COPY_DONE = message(b"c")


def ask_sasl(mechanisms: Sequence[str]) -> bytes:
    """Return the message that asks for SASL."""
    return message(b"R", INT32.pack(10), *map(text, mechanisms), b"\0")


def sasl(data: bytes, *, final: bool) -> bytes:
    """Return a step of SASL."""
    return message(b"R", INT32.pack(12 if final else 11), data)


def parameter_status(name: str, value: str) -> bytes:
    """Return the message that tells the value of a parameter."""
    return message(b"S", text(name), text(value))


def backend_key(process: int, secret: int) -> bytes:
    """Return the message with which a client can cancel."""
    return message(b"K", struct.pack("!II", process, secret))


def negotiate(unknown: Sequence[str]) -> bytes:
    """Return the message that names the newest version here, and the options that the server does not know."""
    return message(b"v", INT32.pack(PROTOCOL), INT32.pack(len(unknown)), *map(text, unknown))


def ready(state: bytes) -> bytes:
    """Return ReadyForQuery."""
    return message(b"Z", state)


def complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return message(b"C", text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return the types of a statement's parameters."""
    return message(b"t", len(oids).to_bytes(2), *(oid.to_bytes(4) for oid in oids))


def response(fields: Mapping[str, str], *, notice: bool = False) -> bytes:
    """Return an ErrorResponse or a NoticeResponse; `fields` has values by their letter."""
    return message(b"N" if notice else b"E", *(name.encode() + text(value) for name, value in fields.items()), b"\0")


def copy_response(kind: bytes, columns: int, *, binary: bool) -> bytes:
    """Return CopyInResponse (`G`) or CopyOutResponse (`H`)."""
    code = int(binary)
    return message(kind, bytes([code]), columns.to_bytes(2), INT16.pack(code) * columns)
