"""Which session a call belongs to: by cookie, else by bearer token, else by connection."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from flightllm.flight.auth import Call
from flightllm.flight.backend import Database, Session


@dataclass(frozen=True, slots=True)
class _Entry:
    session: Session
    key: tuple[str, str]


class SessionStore:
    """The open sessions, safe to use from several threads.

    A client that keeps cookies is found by its cookie. Many do not: they are found by the token they got for their
    password, and without one by their connection. Beyond `size` sessions the least recently used one is closed.
    """

    def __init__(self, database: Database, size: int) -> None:
        self._database = database
        self._size = size
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._by_key: dict[tuple[str, str], str] = {}

    def find(self, call: Call, peer: str) -> tuple[Session, str | None]:
        """Return the call's session, and the cookie to set when this call opened it."""
        key = _key(call, peer)
        with self._lock:
            name = call.cookie if call.cookie in self._entries else self._by_key.get(key)
            if name is not None:
                self._entries.move_to_end(name)
                return self._entries[name].session, None
            name, session = secrets.token_urlsafe(24), self._database.session()
            self._entries[name] = _Entry(session, key)
            self._by_key[key] = name
            old = [self._take(next(iter(self._entries)))] if len(self._entries) > self._size else []
        for closed in old:
            closed.close()
        return session, name

    def close(self, call: Call, peer: str) -> bool:
        """Close the call's session; return whether there was one."""
        with self._lock:
            name = call.cookie if call.cookie in self._entries else self._by_key.get(_key(call, peer))
            session = self._take(name) if name is not None else None
        if session is not None:
            session.close()
        return session is not None

    def clear(self) -> None:
        """Close every session."""
        with self._lock:
            sessions = [self._take(name) for name in list(self._entries)]
        for session in sessions:
            session.close()

    def _take(self, name: str) -> Session:
        entry = self._entries.pop(name)
        self._by_key.pop(entry.key, None)
        return entry.session


def _key(call: Call, peer: str) -> tuple[str, str]:
    """Name the client: by its own token, but by its connection where several may send the same token or none."""
    return (call.token.value, "" if call.token.own else peer)
