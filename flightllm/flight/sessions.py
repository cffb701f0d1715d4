"""Which session a call belongs to: by cookie, else by bearer token, else by connection."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from flightllm.access.principal import Principal
from flightllm.flight.auth import Call
from flightllm.flight.backend import Database, Session


class _Key(NamedTuple):
    """What tells clients without a cookie apart."""

    user: str
    token: str
    peer: str


@dataclass(frozen=True, slots=True)
class _Entry:
    session: Session
    key: _Key


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
        self._by_key: dict[_Key, str] = {}

    def find(self, call: Call, principal: Principal, peer: str) -> tuple[Session, str | None]:
        """Return the call's session, and the cookie to set when this call opened it."""
        key = _key(call, principal, peer)
        with self._lock:
            name = self._named(call, principal, key)
            if name is not None:
                self._entries.move_to_end(name)
                return self._entries[name].session, None
            name, session = secrets.token_urlsafe(24), self._database.session(principal)
            self._entries[name] = _Entry(session, key)
            self._by_key[key] = name
            old = [self._take(next(iter(self._entries)))] if len(self._entries) > self._size else []
        for closed in old:
            closed.close()
        return session, name

    def close(self, call: Call, principal: Principal, peer: str) -> bool:
        """Close the call's session; return whether there was one."""
        with self._lock:
            name = self._named(call, principal, _key(call, principal, peer))
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

    def _named(self, call: Call, principal: Principal, key: _Key) -> str | None:
        """Return the name of the call's session; a cookie opens none of another user."""
        entry = self._entries.get(call.cookie or "")
        return call.cookie if entry is not None and entry.key.user == principal.name else self._by_key.get(key)

    def _take(self, name: str) -> Session:
        entry = self._entries.pop(name)
        self._by_key.pop(entry.key, None)
        return entry.session


def _key(call: Call, principal: Principal, peer: str) -> _Key:
    """Name the client: by its own token, but by its connection where several may send the same token or none."""
    return _Key(principal.name, call.token, "" if call.names_session else peer)
