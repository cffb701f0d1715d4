"""Hands a server's process that has grown over to a new process, without an error for any client.

DataFusion's allocator keeps much of the memory that statements used. Only a new process returns it to the system.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, Queue

import structlog

from flightllm.config import RecoveryConfig
from flightllm.errors import FlightLLMError
from flightllm.flight.handover import can_move, state_of
from flightllm.flight.listeners import CAN_PASS
from flightllm.flight.server import Continued, FlightSqlServer
from flightllm.postgres.server import PostgresServer
from flightllm.recovery.channel import Sender
from flightllm.recovery.messages import Handed, HandOver, Message, Offer, Replaced, Resume
from flightllm.sandbox.memory import memory_of
from flightllm.session.database import Database
from flightllm.storage.lock import held_locks, inherit_locks
from flightllm.web.http_server import HttpServer

_FIRST_SECONDS = 60.0
"""The memory when idle is the least in this time after the start."""
_PATIENCE_SECONDS, _SHORT_QUIET = 300.0, 1.0
"""After this time, a process that is too large waits only for a short quiet moment."""
_CALLS_SECONDS = 2.0
"""The time that the last calls get before the present process goes on."""
_FIRST_PAUSE, _MOST_PAUSE = 30.0, 3600.0
"""The pause after a successor died; it doubles each time."""
_PORT, _HTTP, _POSTGRES, _LOCK = "port", "http", "postgres", "lock"
"""The kinds of descriptors that are handed over."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Inherited:
    """The clients and sockets that a process gets from its predecessor."""

    flight: Continued
    http: socket.socket | None
    postgres: socket.socket | None
    await_turn: Callable[[], None]
    """Tells the supervisor that this process has opened the database, and waits until the predecessor never goes on.

    Before, this process must answer nobody and change nothing, because the predecessor goes on if this process dies.
    """

    @classmethod
    def of(cls, handed: Handed, await_turn: Callable[[], None]) -> "Inherited":
        """Take over the descriptors of a message; the locks hold from now on."""
        kinds = [name.partition(" ") for name in handed.names]
        found = list(zip(kinds, handed.descriptors, strict=True))
        inherit_locks({folder: number for (kind, _, folder), number in found if kind == _LOCK})
        sockets = [(port, socket.socket(fileno=number)) for (kind, _, port), number in found if kind == _PORT]
        ports = [[one for _, one in some] for _, some in groupby(sockets, key=lambda pair: pair[0])]
        one = {kind: socket.socket(fileno=number) for (kind, _, _), number in found if kind in (_HTTP, _POSTGRES)}
        return cls(Continued(handed.state, ports), one.get(_HTTP), one.get(_POSTGRES), await_turn)


@dataclass(slots=True)
class _Doors:
    """The sockets in which new connections wait while no process accepts them."""

    flight: Sequence[Sequence[socket.socket]]
    http: socket.socket | None = None
    postgres: socket.socket | None = None

    def named(self) -> Iterator[tuple[str, int]]:
        for port, some in enumerate(self.flight):
            yield from ((f"{_PORT} {port}", one.fileno()) for one in some)
        if self.http is not None:
            yield _HTTP, self.http.fileno()
        if self.postgres is not None:
            yield _POSTGRES, self.postgres.fileno()
        yield from ((f"{_LOCK} {folder}", number) for folder, number in held_locks().items())


class Renewal:
    """Watches the memory of this process, and hands the server over once it has grown and is quiet.

    `send` sends the supervisor a message, and `inbox` has the supervisor's messages.
    """

    def __init__(self, config: RecoveryConfig, send: Sender, inbox: "Queue[Message]") -> None:
        self._growth = config.renew_growth
        self._least = config.renew_bytes
        self._quiet_seconds = float(config.renew_quiet_seconds)
        self._send = send
        self._inbox = inbox
        self._began = time.monotonic()
        self._idle = memory_of(os.getpid())
        self._large_since: float | None = None
        self._not_before = 0.0
        self._pause = _FIRST_PAUSE
        self._possible = CAN_PASS and self._growth > 0 and self._idle > 0

    def renewed(self, server: FlightSqlServer, http: HttpServer, postgres: PostgresServer, database: Database) -> bool:
        """Look once at this process; return whether another process serves now in its place."""
        asked, count = self._asked(), server.core.activity.count
        if not self._is_due(server, database):
            return False
        if asked:
            return self._hand_over(server, http, postgres, database, count)
        self._send(Offer(self._idle, memory_of(os.getpid())))
        return False

    def _asked(self) -> bool:
        """Return whether the supervisor has a process that can take over."""
        asked = False
        try:
            while True:
                asked = isinstance(self._inbox.get_nowait(), HandOver) or asked
        except Empty:
            return asked

    def _is_due(self, server: FlightSqlServer, database: Database) -> bool:
        now, used, activity = time.monotonic(), memory_of(os.getpid()), server.core.activity
        if now - self._began < _FIRST_SECONDS:
            self._idle = min(self._idle, used)
        if used < max(self._growth * self._idle, self._idle + self._least):
            self._large_since = None
            return False
        self._large_since = self._large_since or now
        impatient = now - self._large_since > _PATIENCE_SECONDS
        quiet = min(self._quiet_seconds, _SHORT_QUIET) if impatient else self._quiet_seconds
        is_quiet = activity.count > 0 and not activity.running and activity.quiet_seconds >= quiet
        ready = self._possible and now >= self._not_before and is_quiet
        return ready and database.can_move and can_move(server.core)

    def _hand_over(
        self, server: FlightSqlServer, http: HttpServer, postgres: PostgresServer, database: Database, count: int
    ) -> bool:
        """Stop answering calls, and let another process continue; return False if this process goes on.

        `count` is the number of calls before `can_move` looked. A later call can have changed what it saw.
        """
        self._not_before = time.monotonic() + self._pause
        try:
            doors = _Doors(server.pause(_CALLS_SECONDS))
        except FlightLLMError as error:
            self._possible = False
            _log.warning("this process cannot be replaced without a stop", error=str(error))
            return False
        except OSError as error:  # for example, too many open files
            _log.warning("the server could not be handed over to another process", error=str(error))
            return False
        moved, activity = False, server.core.activity
        try:
            if activity.count == count:
                doors.http = http.pause()
                doors.postgres = postgres.pause()
            if activity.count == count:  # no call came through the web page meanwhile
                self._pause = min(_MOST_PAUSE, 2 * self._pause)
                moved = self._replaced(server, database, doors)
            else:
                self._not_before = 0.0
        except Exception:  # noqa: BLE001 - the server goes on as it was
            _log.exception("the server could not be handed over to another process")
        if not moved:
            server.resume(doors.flight)
            http.resume(doors.http)
            postgres.resume(doors.postgres)
        return moved

    def _replaced(self, server: FlightSqlServer, database: Database, doors: _Doors) -> bool:
        """Hand over what the next process needs; return whether that process serves from now on."""
        database.write()
        names, descriptors = zip(*doors.named(), strict=True)
        self._send(Handed(state_of(server.core), names, descriptors))
        while True:  # the supervisor answers, and this process ends with the supervisor
            answer = self._inbox.get()
            if isinstance(answer, Replaced | Resume):
                return isinstance(answer, Replaced)
