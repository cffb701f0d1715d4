"""The Flight connections of the callers: each caller has a login and sessions of its own."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from flightllm.client import BOOKKEEPING, Client
from flightllm.common.basic_credentials import read_basic
from flightllm.errors import BusyError, FlightLLMError, UnauthenticatedError

_IDLE_SECONDS = 30 * 60.0
"""A connection that nobody used for this long is closed; MCP sessions end after the same time."""
_MOST = 1_000
"""The most connections at once."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request; both parts are empty where the request lacks them."""

    session: str = ""
    """The header `Mcp-Session-Id`."""
    authorization: str = ""

    @property
    def digest(self) -> str:
        """Return a text that identifies the credentials and does not reveal them."""
        return hashlib.sha256(self.authorization.encode()).hexdigest()


@dataclass(slots=True)
class _Entry:
    client: Client
    used: float
    running: int = 0


class Callers:
    """Open connections by caller. Safe to use from several threads.

    `connect` opens a connection with the credentials of an `Authorization` header, or without credentials for an
    empty text.
    Two callers share a connection only if both their session and their credentials are equal. A connection that
    nobody used for `idle_seconds` is closed.
    """

    def __init__(self, connect: Callable[[str], Client], idle_seconds: float = _IDLE_SECONDS) -> None:
        self._connect = connect
        self._idle_seconds = idle_seconds
        self._closed = threading.Event()
        self._sweeps = False
        """Whether a thread closes idle connections; it ends when no connection is left."""
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}

    @contextmanager
    def client(self, caller: Caller) -> Iterator[Client]:
        """Yield the caller's connection, which stays open at the end.

        Raises:
            UnauthenticatedError: the server does not accept the credentials.
            EngineUnavailableError: no server answers.
            BusyError: too many connections are open, and all of them are in use.
        """
        key = (caller.session, caller.digest)
        entry = self._taken(key) or self._opened(key, caller.authorization)
        try:
            yield entry.client
        except UnauthenticatedError:  # the login has expired or was revoked: the next call logs in again
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            raise
        finally:
            with self._lock:
                entry.running -= 1
                entry.used = time.monotonic()
                ended = entry.running == 0 and self._entries.get(key) is not entry
            if ended:
                entry.client.close()

    def check(self, caller: Caller) -> None:
        """Check that the server accepts the credentials; credentials that it accepted before are not sent again.

        Raises:
            FlightLLMError: see `client`.
        """
        with self._lock:
            known = any(digest == caller.digest for _, digest in self._entries)
        if not known:
            with self.client(caller):
                pass

    def _taken(self, key: tuple[str, str]) -> _Entry | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.running += 1
            return entry

    def _opened(self, key: tuple[str, str], authorization: str) -> _Entry:
        self._make_room()
        client = self._connect(authorization)
        try:
            list(client.query(f"{BOOKKEEPING}SELECT 1")[1])  # tokens are first checked here
        except FlightLLMError:
            client.close()
            raise
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(client, time.monotonic())
            entry.running += 1
            if not self._sweeps:
                self._sweeps = True
                threading.Thread(target=self._sweep, name="mcp-idle", daemon=True).start()
        if entry.client is not client:  # another thread was quicker
            client.close()
        return entry

    def _sweep(self) -> None:
        while not self._closed.wait(self._idle_seconds / 2):
            with self._lock:
                old = [self._entries.pop(key) for key in self._idle()]
                self._sweeps = bool(self._entries)
                ends = not self._sweeps
            _close(old)
            if ends:
                return

    def _idle(self) -> list[tuple[str, str]]:
        horizon = time.monotonic() - self._idle_seconds
        return [key for key, one in self._entries.items() if not one.running and one.used < horizon]

    def _make_room(self) -> None:
        with self._lock:
            idle = self._idle()
            if len(self._entries) - len(idle) >= _MOST:
                unused = [key for key, one in self._entries.items() if not one.running]
                if not unused:
                    raise BusyError(f"{_MOST:,} connections of agents are open and in use: try again later")
                idle.append(min(unused, key=lambda key: self._entries[key].used))
            old = [self._entries.pop(key) for key in dict.fromkeys(idle)]
        _close(old)

    def close(self) -> None:
        """Close all connections."""
        self._closed.set()
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        _close(entries)


def _close(entries: Iterable[_Entry]) -> None:
    for one in entries:
        with suppress(FlightLLMError):  # the server is gone
            one.client.close()


def credentials(authorization: str) -> tuple[tuple[str, str] | None, str | None]:
    """Return the login of a Basic header, or the token of a Bearer header; both are None for an empty header.

    Raises:
        UnauthenticatedError: the header has another form.
    """
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if not authorization:
        return None, None
    if scheme.lower() == "bearer" and value:
        return None, value
    if scheme.lower() == "basic":
        return read_basic(value), None
    raise UnauthenticatedError("write `Authorization: Bearer TOKEN`, or `Authorization: Basic` with user:password")
