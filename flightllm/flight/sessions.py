"""Which session a call belongs to: by cookie, else by bearer token, else by connection."""

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from flightllm.common.limits import busy
from flightllm.common.principal import Principal
from flightllm.errors import NotFoundError
from flightllm.flight.auth import Call
from flightllm.flight.backend import Database, Session
from flightllm.flight.connections import connected_ports, port_of
from flightllm.flight.limits import FlightLimits

_LOOK_SECONDS = 60.0
"""How often it is looked for connections that are gone."""


class _Key(NamedTuple):
    """What tells clients without a cookie apart."""

    user: Principal
    token: str
    peer: str


@dataclass(slots=True)
class _Entry:
    session: Session
    key: _Key
    used: float
    options: Mapping[str, str]
    """Its settings when it was opened."""
    by_cookie: bool = False
    """Its client keeps cookies, so that it may come back by another connection."""


class SessionStore:
    """The open sessions, safe to use from several threads.

    A client that keeps cookies is found by its cookie. Many do not: they are found by the token they got for their
    password, and without one by their connection, with which the session ends where the system tells of that: another
    client may get its port. A session that was not used for long is closed: see `FlightLimits`.
    Where there are as many as may be, whoever has most makes room. Who comes back to a session that was closed with
    settings of its own is told so once, if a cookie or a login's token says that it is the same client.
    """

    def __init__(self, database: Database, limits: FlightLimits) -> None:
        self._database = database
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._by_key: dict[_Key, str] = {}
        self._lost: OrderedDict[str, _Key] = OrderedDict()
        """The last sessions closed with settings of their own, by cookie: as many as may be open."""
        self._looked = time.monotonic()

    def find(self, call: Call, principal: Principal, peer: str) -> tuple[Session, str | None]:
        """Return the call's session, and the cookie to set when this call opened it.

        Raises:
            BusyError: there are as many sessions as there may be, all of them in use, and others have no more of them.
            NotFoundError: the session was closed meanwhile, and its settings are gone.
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
                self._tell(call, key)
                if len(self._entries) >= self._limits.sessions:
                    old.append(self._one_too_many(principal, now - self._limits.idle_seconds))
                opened = secrets.token_urlsafe(24)
                session = self._database.session(principal, peer=peer)
                entry = self._entries[opened] = _Entry(session, key, now, session.get_options())
                self._by_key[key] = opened
        for closed in old:
            closed.close()
        return entry.session, opened

    def __len__(self) -> int:
        """Return how many sessions are open."""
        with self._lock:
            return len(self._entries)

    def _expired(self, horizon: float) -> list[Session]:
        """Take out the sessions not used since `horizon`."""
        return [self._lose(name) for name in self._unused(horizon)]

    def _left(self, now: float) -> list[Session]:
        """Take out the sessions of connections that are gone, once in a while."""
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

    def _one_too_many(self, principal: Principal, horizon: float) -> Session:
        """Take out one not used since `horizon`, or else any: the least recently used one of the user who has most."""
        users = {name: entry.key.user.name for name, entry in self._entries.items()}
        counts = Counter(users.values())
        unused = self._unused(horizon)
        name = max(unused or users, key=lambda name: counts[users[name]])
        if not unused and counts[users[name]] < counts[principal.name] + 2:
            raise busy("sessions", self._limits.sessions, "all sessions are in use")
        return self._lose(name)

    def close(self, call: Call, principal: Principal, peer: str) -> None:
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

    def _named(self, call: Call, principal: Principal, key: _Key) -> str | None:
        """Return the name of the call's session; a cookie opens none of another user."""
        entry = self._entries.get(call.cookie or "")
        return call.cookie if entry is not None and entry.key.user == principal else self._by_key.get(key)

    def _tell(self, call: Call, key: _Key) -> None:
        """Raise `NotFoundError`, once, where the client had a session that was closed with settings of its own."""
        names = (name for name, lost in self._lost.items() if lost == key and call.names_session)
        name = call.cookie or next(names, "")
        if (lost := self._lost.get(name)) is not None and lost.user == key.user:
            del self._lost[name]
            raise NotFoundError(
                "the session was closed, as it was not used for long or others needed room, and its settings are gone:"
                " set them again, or send the call again to go on without"
            )

    def _lose(self, name: str) -> Session:
        """Take a session out whose client may come back."""
        entry = self._entries[name]
        if entry.session.get_options() != entry.options:
            self._lost[name] = entry.key
            while len(self._lost) > self._limits.sessions:
                self._lost.popitem(last=False)
        return self._take(name)

    def _take(self, name: str) -> Session:
        entry = self._entries.pop(name)
        self._by_key.pop(entry.key, None)
        return entry.session


def _key(call: Call, principal: Principal, peer: str) -> _Key:
    """Name the client: by its own token, but by its connection where several may send the same token or none."""
    return _Key(principal, call.token, "" if call.names_session else peer)
