"""One connection: bytes of the network in the event loop, and messages in a thread of the pool, one after the other."""

import asyncio
import ssl
import threading
from collections import deque
from typing import Any

import structlog

from flightllm.postgres.conversation import Conversation
from flightllm.postgres.failures import ClientGoneError, WireError, fatal, fields_of
from flightllm.postgres.front import Front
from flightllm.postgres.login import LoginTalk
from flightllm.postgres.messages import CANCEL_REQUEST, GSS_REQUEST, INT32, TLS_REQUEST, Body, malformed, response

_log = structlog.get_logger(__name__)
_STRANGER_BYTES = 10_000
"""The longest message of a client that has not logged in, as in PostgreSQL."""
_WAITING_BYTES = 1 << 20
"""The bytes of messages that wait; beyond, the network is not read."""
_CHUNK, _CREDITS, _POLL_SECONDS = 256 << 10, 4, 0.1
"""Bytes that are sent together, how many such chunks wait for the event loop, and how often a wait looks around."""
_TLS_SECONDS = 10.0
_KINDS = frozenset(b"QPBDECSHXFdcfp")


class Connection(asyncio.Protocol):
    """The network's side lives in the event loop; `work` and all that it calls live in a thread of the pool."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.peer = ""
        self.is_local = False
        self.encrypted = False
        self._upgrading = False
        """Whether bytes can come through TLS before this knows the transport to answer through."""
        self.key: tuple[int, int] | None = None
        self.conversation: Conversation | None = None
        self._login: LoginTalk | None = None
        self._transport: Any = None
        self._buffer = bytearray()
        self._lock = threading.Condition()
        self._inbox: deque[tuple[bytes, bytes]] = deque()
        self._waiting = 0
        self._reading = True
        self._busy = False
        self._dead = False
        """Nothing more is answered."""
        self._ended = False
        self._gone = threading.Event()
        self._out = bytearray()
        self._credits = threading.Semaphore(_CREDITS)
        self._paused, self._owed = False, 0
        self._timer: asyncio.TimerHandle | None = None

    # --- in the event loop

    def connection_made(self, transport: Any) -> None:
        """Begin to listen to a client."""
        self._transport = transport
        transport.set_write_buffer_limits(high=1 << 20)
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self.peer = f"postgres:{host}:{port}"
        self.is_local = self.front.is_local(host)
        if not self.front.add(self):
            transport.abort()
            return
        seconds = self.front.config.login_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        if self.conversation is None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client apart into messages."""
        self._buffer += data
        if not self._upgrading:
            self._take_all()

    def _take_all(self) -> None:
        try:
            while self._take():
                pass
        except WireError as error:
            self._end_with(error)

    def _take(self) -> bool:
        """Take one message out of the buffer; return False if it is not complete yet."""
        begun = self._login is not None
        head = 5 if begun else 4
        if self._ended or len(self._buffer) < head:
            return False
        kind = bytes(self._buffer[:1]) if begun else b""
        size = int(INT32.unpack_from(self._buffer, head - 4)[0])
        most = _STRANGER_BYTES if self.conversation is None else self.front.config.message_bytes
        if begun and kind[0] not in _KINDS:
            raise fatal("08P01", f"invalid frontend message type {kind[0]}")
        if size < (4 if begun else 8):
            raise fatal("08P01", "invalid message length")
        if size > most:
            hint = "" if self.conversation is None else "raise [postgres] message_bytes in the server's configuration"
            raise fatal("54000", f"a message has {size:,} bytes; at most {most:,} are allowed", hint)
        end = head - 4 + size
        if len(self._buffer) < end:
            return False
        body = bytes(self._buffer[head:end])
        del self._buffer[:end]
        if begun:
            self._put(kind, body)
            return True
        return self._begin(body)

    def _begin(self, body: bytes) -> bool:
        """Answer the first message of a connection; return False to wait for more bytes."""
        code = int(INT32.unpack_from(body)[0])
        if code == CANCEL_REQUEST:
            rest = Body(body[4:])
            self.front.cancel((int.from_bytes(rest.take(4)), int.from_bytes(rest.take(4))))
            self._transport.close()
            return False
        if code in (TLS_REQUEST, GSS_REQUEST):
            if self._buffer:  # bytes before the answer were not sent by the client that the certificate convinces
                raise fatal("08P01", "received unencrypted data after a request to encrypt")
            if code == TLS_REQUEST and self.front.tls is not None and not self.encrypted:
                self._upgrading = True
                self._transport.pause_reading()
                self._transport.write(b"S")
                self.front.start(self._encrypt(self.front.tls))
                return False
            self._transport.write(b"N")
            return True
        self._login = LoginTalk(self, self.front, self.peer, encrypted=self.encrypted, is_local=self.is_local)
        self._put(b"", body)
        return True

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        loop, before = asyncio.get_running_loop(), self._transport
        try:
            self._transport = await loop.start_tls(
                before, self, context, server_side=True, ssl_handshake_timeout=_TLS_SECONDS
            )
        except (OSError, TimeoutError, ValueError):  # the client gave up, or speaks no TLS that the server speaks
            before.abort()
            return
        if self._transport is None:
            before.abort()
            return
        self.encrypted, self._upgrading = True, False
        self._transport.set_write_buffer_limits(high=1 << 20)
        self._take_all()

    def _put(self, kind: bytes, body: bytes) -> None:
        with self._lock:
            self._inbox.append((kind, body))
            self._waiting += len(body)
            self._lock.notify_all()
            start = not self._busy and not self._dead
            self._busy = self._busy or start
            pause = self._waiting > _WAITING_BYTES and self._reading
            if pause:
                self._reading = False
        if pause:
            self._transport.pause_reading()
        if start:
            self.front.submit(self.work)

    def eof_received(self) -> bool:
        """Close the connection."""
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """Stop what runs for the client, and forget the connection."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._gone.set()
        self.front.remove(self)
        if self.conversation is not None:
            self.conversation.leave()
        with self._lock:
            self._lock.notify_all()
            start, self._busy = not self._busy, True
        for _ in range(_CREDITS):
            self._credits.release()
        if start:
            self.front.submit(self.work)

    def pause_writing(self) -> None:
        """Let the sender wait."""
        self._paused = True

    def resume_writing(self) -> None:
        """Let the sender go on."""
        self._paused = False
        owed, self._owed = self._owed, 0
        for _ in range(owed):
            self._credits.release()

    def _write(self, data: bytes) -> None:
        if not self._ended:
            self._transport.write(data)
        if self._paused:
            self._owed += 1
        else:
            self._credits.release()

    def _resume_reading(self) -> None:
        if not self._gone.is_set():
            self._transport.resume_reading()

    def _end_with(self, error: WireError) -> None:
        """Send an error and close, in the event loop."""
        if not self._ended:
            self._ended = True
            self._transport.write(response(fields_of(error)))
            self._transport.close()

    def abort(self) -> None:
        """Close without an answer, in the event loop."""
        self._transport.abort()

    def shut(self, error: WireError) -> None:
        """End the connection because the server stops, in the event loop."""
        if self._login is None:
            self._transport.abort()
        else:
            self._end_with(error)

    # --- in a thread of the pool

    def work(self) -> None:
        """Answer the messages that wait."""
        try:
            while (found := self._next()) is not None:
                with self.front.core.activity.call():
                    self._answer(*found)
        except ClientGoneError:
            self._dead = True
        except Exception as error:  # noqa: BLE001 - the boundary: the client gets the error, the log gets defects
            self._dead = True
            self._give_up(error)
        with self._lock:
            if self._dead or self._gone.is_set():
                self._busy = False
        if self._gone.is_set() and self.conversation is not None:
            self.conversation.close()

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return the next message. If no message waits, return None, and this thread ends."""
        while True:
            with self._lock:
                if self._gone.is_set() or self._dead:
                    return None
                if self._inbox:
                    break
                if not self._out:
                    self._busy = False
                    return None
            self.flush()
        return self._pop()

    def _pop(self) -> tuple[bytes, bytes]:
        with self._lock:
            found = self._inbox.popleft()
            self._waiting -= len(found[1])
            resume = not self._reading and self._waiting < _WAITING_BYTES
            if resume:
                self._reading = True
        if resume:
            self.front.soon(self._resume_reading)
        return found

    def _answer(self, kind: bytes, body: bytes) -> None:
        if self.conversation is not None:
            self.conversation.answer(kind, body)
        elif self._login is None:
            raise malformed("a message before the login")
        else:
            found = self._login.answer(kind, body)
            if found is not None:
                self.conversation = found
                self.key = self.front.new_key(self, found.number)
                found.welcome(self.key)

    def next_message(self) -> tuple[bytes, bytes]:
        """Wait for the client's next message, within a statement that reads some.

        Raises:
            ClientGoneError: the connection has ended.
        """
        with self._lock:
            while not self._inbox:
                if self._gone.is_set() or self._ended:
                    raise ClientGoneError
                self._lock.wait(_POLL_SECONDS)
                if not self._inbox and self.conversation is not None and self.conversation.is_cancelled:
                    return b"f", b"canceling statement due to user request\0"
        return self._pop()

    def _give_up(self, error: Exception) -> None:
        """Send an error that ends the connection."""
        self.front.core.refusals.note(error)
        told = error if isinstance(error, WireError) else None
        fields = {**fields_of(told or error), "S": "FATAL", "V": "FATAL"}
        with self._lock:
            self._inbox.clear()
        self._out += response(fields)
        out, self._out = bytes(self._out), bytearray()
        self.front.soon(self._close_after, out)

    def _close_after(self, data: bytes) -> None:
        if not self._ended:
            self._ended = True
            self._transport.write(data)
            self._transport.close()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self.flush()
        self.front.soon(self._close_after, b"")
        raise ClientGoneError

    def send(self, data: bytes) -> None:
        """Send bytes; they wait here until there are many, or until `flush`.

        Raises:
            ClientGoneError: the connection has ended.
        """
        self._out += data
        if len(self._out) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Send what waits. A slow client makes this wait.

        Raises:
            ClientGoneError: the connection has ended, or its query was stopped because the client took no rows.
        """
        while self._out:
            while not self._credits.acquire(timeout=_POLL_SECONDS):
                if self.conversation is not None and self.conversation.is_stopped:
                    self.front.soon(self._transport.abort)
                    raise ClientGoneError
            if self._gone.is_set():
                raise ClientGoneError
            data = bytes(self._out[:_CHUNK])
            del self._out[:_CHUNK]
            self.front.soon(self._write, data)
