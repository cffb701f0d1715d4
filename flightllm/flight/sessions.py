"""Find the session of a call: by cookie, else by bearer token, else by connection."""

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from flightllm.common.limits import busy
from flightllm.common.newest import Newest
from flightllm.common.principal import Principal
from flightllm.errors import NotFoundError
from flightllm.flight.auth import CallerContext
from flightllm.flight.backend import BackendDatabase, BackendSession
from flightllm.flight.connections import connected_ports, port_of
from flightllm.flight.limits import FlightLimits

_LOOK_SECONDS = 60.0
"""How often the store looks for connections that have closed."""


class _Key(NamedTuple):
    """The identity of a client that sends no cookie."""

    user: Principal
    token: str
    peer: str


@dataclass(slots=True)
class _Entry:
    session: BackendSession
    key: _Key
    used: float
    options: Mapping[str, str]
    """The session's settings when it was opened."""
    by_cookie: bool = False
    """The client keeps cookies, so it can come back over another connection."""


@dataclass(frozen=True, slots=True)
class SessionsState:
    """The sessions, for another process that continues them."""

    entries: Mapping[str, _Entry]
    lost: Mapping[str, _Key]

    @property
    def connected(self) -> list[BackendSession]:
        """Return the sessions that only their connection names."""
        return [one.session for one in self.entries.values() if one.key.peer and not one.by_cookie]


class SessionStore:
    """The open sessions, safe to use from several threads.

    A client that keeps cookies is found by its cookie. Many clients do not keep cookies; they are found by the token
    that they got for their password. A client without a token is found by its connection. Its session ends with the
    connection where the operating system reports this, because another client can get the same port.

    A session that was not used for long is closed: see `FlightLimits`. At the maximum number of sessions, the user with
    the most sessions loses one. A client whose session was closed with changed settings gets one error when it comes
    back. The store recognises that client by a cookie or a login's token.
    """

    def __init__(self, database: BackendDatabase, limits: FlightLimits) -> None:
        self._database = database
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._by_key: dict[_Key, str] = {}
        self._lost = Newest[str, _Key](limits.sessions)
        """The last sessions that were closed with changed settings, by cookie; at most as many as can be open."""
        self._looked = time.monotonic()

    def find(self, call: CallerContext, principal: Principal, peer: str) -> tuple[BackendSession, str | None]:
        """Return the call's session, and the cookie to set when this call opened it.

        Raises:
            BusyError: the maximum number of sessions is open and in use, and no other user has more of them.
            NotFoundError: the session was closed meanwhile, and its settings are lost.
        """
        key = _key(call, principal, peer)
        now = time.monotonic()
        with self._lock:
            old = [*self._expired(now - self._limits.session_seconds), *self._left(now)]
            name = self._named(call, principal, key)
            if name is not None:
                self._entries.move_to_end(name)
                entry, opened = self._entries[name], None
                entry.used = now
                entry.by_cookie = entry.by_cookie or name == call.cookie
            else:
                self._check_not_lost(call, key)
                if len(self._entries) >= self._limits.sessions:
                    old.append(self._make_room(principal, now - self._limits.idle_seconds))
                opened = secrets.token_urlsafe(24)
                session = self._database.session(principal, peer=peer)
                entry = self._entries[opened] = _Entry(session, key, now, session.get_options())
                self._by_key[key] = opened
        for closed in old:
            closed.close()
        return entry.session, opened

    def opened(self, call: CallerContext, principal: Principal, peer: str) -> BackendSession | None:
        """Return the call's session, or None if the client has opened no session. It does not count as used."""
        with self._lock:
            name = self._named(call, principal, _key(call, principal, peer))
            return None if name is None else self._entries[name].session

    def __len__(self) -> int:
        """Return the number of open sessions."""
        with self._lock:
            return len(self._entries)

    @property
    def can_move(self) -> bool:
        """Return whether another process can continue all sessions.

        It can not where a session has more than its settings, or has changed settings and is found by its connection,
        because the connection ends.
        """
        ports = connected_ports()
        with self._lock:
            entries = list(self._entries.values())
        return all(one.session.state() is not None and not _bound(one, ports) for one in entries)

    def state(self) -> SessionsState:
        """Return all sessions."""
        with self._lock:
            return SessionsState(dict(self._entries), dict(self._lost))

    def restore(self, state: SessionsState) -> None:
        """Continue the sessions of another process."""
        with self._lock:
            self._entries.update(state.entries)
            self._by_key.update((entry.key, name) for name, entry in state.entries.items())
            self._lost.update(state.lost)

    def _expired(self, horizon: float) -> list[BackendSession]:
        """Remove the sessions not used since `horizon`."""
        return [self._evict(name) for name in self._unused(horizon)]

    def _left(self, now: float) -> list[BackendSession]:
        """Remove the sessions of closed connections, at most every `_LOOK_SECONDS`."""
        if now - self._looked < _LOOK_SECONDS:
            return []
        horizon, self._looked = self._looked, now
        ports = connected_ports()
        if ports is None:
            return []
        known = {None, *ports}
        unused = [(name, self._entries[name]) for name in self._unused(horizon)]
        return [self._take(name) for name, one in unused if not one.by_cookie and port_of(one.key.peer) not in known]

    def _unused(self, horizon: float) -> list[str]:
        """Return the names of the sessions not used since `horizon`, the oldest first."""
        return list(takewhile(lambda name: self._entries[name].used <= horizon, self._entries))

    def _make_room(self, principal: Principal, horizon: float) -> BackendSession:
        """Remove the least recently used session of the user who has the most sessions.

        A session not used since `horizon` is preferred.
        """
        users = {name: entry.key.user.name for name, entry in self._entries.items()}
        counts = Counter(users.values())
        unused = self._unused(horizon)
        name = max(unused or users, key=lambda name: counts[users[name]])
        if not unused and counts[users[name]] < counts[principal.name] + 2:
            raise busy("sessions", self._limits.sessions, "all sessions are in use")
        return self._evict(name)

    def close(self, call: CallerContext, principal: Principal, peer: str) -> None:
        """Close the call's session, if there is one."""
        with self._lock:
            name = self._named(call, principal, _key(call, principal, peer))
            session = self._take(name) if name is not None else None
        if session is not None:
            session.close()

    def clear(self) -> None:
        """Close every session."""
        with self._lock:
            sessions = [self._take(name) for name in list(self._entries)]
        for session in sessions:
            session.close()

    def _named(self, call: CallerContext, principal: Principal, key: _Key) -> str | None:
        """Return the name of the call's session; a cookie never opens a session of another user."""
        entry = self._entries.get(call.cookie or "")
        return call.cookie if entry is not None and entry.key.user == principal else self._by_key.get(key)

    def _check_not_lost(self, call: CallerContext, key: _Key) -> None:
        """Raise `NotFoundError` once if the client's session was closed with changed settings."""
        names = (name for name, lost in self._lost.items() if lost == key and call.names_session)
        name = call.cookie or next(names, "")
        if (lost := self._lost.get(name)) is not None and lost.user == key.user:
            del self._lost[name]
            raise NotFoundError(
                "the session was closed because it was idle too long or others needed room, and its settings are lost:"
                " set them again, or repeat the call to continue with the default settings"
            )

    def _evict(self, name: str) -> BackendSession:
        """Remove a session whose client can come back."""
        entry = self._entries[name]
        if entry.session.get_options() != entry.options:
            self._lost[name] = entry.key
        return self._take(name)

    def _take(self, name: str) -> BackendSession:
        entry = self._entries.pop(name)
        self._by_key.pop(entry.key, None)
        return entry.session


def _bound(entry: _Entry, ports: frozenset[int] | None) -> bool:
    """Return whether a session ends with its connection, which is open, and would lose its settings."""
    if entry.by_cookie or not entry.key.peer or entry.session.get_options() == entry.options:
        return False
    port = port_of(entry.key.peer)
    return ports is None or port is None or port in ports


def _key(call: CallerContext, principal: Principal, peer: str) -> _Key:
    """Return the client's key: its token, or its connection where clients can share a token or send no token."""
    return _Key(principal, call.token, "" if call.names_session else peer)
