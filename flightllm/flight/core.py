"""What all calls of one server share."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

from flightllm.errors import EngineUnavailableError, UnsupportedError
from flightllm.flight.auth import COOKIE, Call
from flightllm.flight.backend import Database, Session
from flightllm.flight.limits import FlightLimits
from flightllm.flight.registry import Registry
from flightllm.flight.sessions import SessionStore
from flightllm.flight.slots import Slots
from flightllm.flight.sql_info import Value
from flightllm.flight.statements import Prepared, Statement

CALL = "flightllm"
"""The key of `Call` among the server's middleware."""


@dataclass(slots=True)
class Core:
    """The server's state: sessions, statements and bounds. Each part has its own lock."""

    database: Database
    limits: FlightLimits
    info: Mapping[int, Value]
    stop: Callable[[], None] | None = None
    """Drains the server, where it runs in a process of its own."""
    sessions: SessionStore = field(init=False)
    prepared: Registry[Prepared] = field(init=False)
    statements: Registry[Statement] = field(init=False)
    slots: Slots = field(init=False)
    draining: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        count, seconds = self.limits.statements, self.limits.statement_seconds
        self.sessions = SessionStore(self.database, self.limits.sessions)
        self.prepared = Registry("prepared statement", count, seconds)
        self.statements = Registry("query", count, seconds, Statement.drop)
        self.slots = Slots(
            self.limits.concurrent_queries,
            wait_seconds=self.limits.queue_seconds,
            poll_seconds=self.limits.poll_seconds,
        )

    def session(self, context: flight.ServerCallContext) -> Session:
        """Return the session a call belongs to."""
        session, cookie = self.sessions.find(call_of(context), context.peer())
        if cookie is not None:
            context.add_header("set-cookie", f"{COOKIE}={cookie}; HttpOnly")
        return session

    def refuse_when_draining(self) -> None:
        """Raise `EngineUnavailableError` once the server was told to stop."""
        if self.draining.is_set():
            raise EngineUnavailableError("the server is shutting down; connect again in a moment")


def call_of(context: flight.ServerCallContext) -> Call:
    """Return what the headers of a call said."""
    call: Call = context.get_middleware(CALL)
    return call


def refuse_transaction(message: Any) -> None:
    """Raise `UnsupportedError` for a statement inside a transaction: there are none here."""
    if message.transaction_id:
        raise UnsupportedError("transactions are not supported; every statement commits by itself (use autocommit)")
