"""Statements between two calls of a client: prepared statements, and planned ones that wait for a fetch."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Names
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from flightllm.errors import CancelledError, NotFoundError, PermissionDeniedError
from flightllm.execution.describe import Description
from flightllm.execution.kept_plans import KeptPlan
from flightllm.flight.backend import (
    BackendQueryRecord,
    BackendQueryResult,
    BackendSession,
)
from flightllm.flight.parts import Parts
from flightllm.flight.results import close_batches, give_up
from flightllm.flight.sequence import Sequence, table_changed
from flightllm.observe.query_record import QueryRecord as Record
from flightllm.sql.parameters import each_row

_PARAMETER = re.compile(r"\$\d")
_PREPARED = ("session", "text", "description", "parameters", "origin", "lost", "_latest", "_bindings")
_STATEMENT = (
    "session",
    "text",
    "parameters",
    "settings",
    "parts",
    "names",
    "returned",
    "_schema",
    "_cancelled",
    "_stopped",
)
"""The fields of a prepared statement, and of a planned one, that move to another process."""


class Cancelled(IntEnum):
    """The outcome of a request to cancel, with the numbers of CancelStatus and CancelResult."""

    CANCELLED = 1
    CANCELLING = 2
    NOT_CANCELLABLE = 3


@dataclass(slots=True)
class Prepared:
    """A prepared statement: SQL text or a serialized Substrait plan. Thread-safe.

    With an `origin` it is a binding: the origin's statement with `parameters` bound to it.
    """

    session: BackendSession
    text: str | bytes
    description: Description
    parameters: pa.Table | None = None
    origin: "Prepared | None" = None
    lost: bool = False
    """Whether values were bound to the statement and then dropped."""
    _latest: "Prepared | None" = None
    _bindings: deque[bytes] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _PREPARED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in _PREPARED:
            setattr(self, name, state[name])
        self._lock = threading.Lock()

    def move_to(self, session: BackendSession) -> None:
        """Run in another session of the same user from now on."""
        self.session = session
        if self.origin is not None:
            self.origin.session = session

    @property
    def values(self) -> pa.Table | None:
        """Return the rows of parameters to run with: the statement's own, else the rows bound to it last.

        Raises:
            NotFoundError: the rows were dropped.
        """
        with self._lock:
            latest = self._latest
        if latest is None:
            return self.parameters
        if latest.lost:
            raise NotFoundError(
                "the values bound to the prepared statement were closed, or dropped because others needed room: bind"
                " them again"
            )
        return latest.parameters

    def lose(self) -> None:
        """Drop the statement's values."""
        self.lost, self.parameters = self.parameters is not None, None

    def bound_as(self, handle: bytes, binding: "Prepared", most: int) -> list[bytes]:
        """Record a binding; return the handles of the oldest bindings beyond `most`."""
        with self._lock:
            self._latest = binding
            self._bindings.append(handle)
            return [self._bindings.popleft() for _ in range(len(self._bindings) - most)]

    def unbind(self) -> list[bytes]:
        """Remove all bindings and return their handles."""
        with self._lock:
            self._latest, handles = None, list(self._bindings)
            self._bindings.clear()
            return handles

    @property
    def names(self) -> tuple[str, ...]:
        """Return the promised column names if the statement has parameters, else nothing."""
        return tuple(self.description.schema.names) if len(self.description.parameters) else ()


class _WithoutAnswers:
    """A result that does not tell which columns depend on AI calls."""

    __slots__ = ()

    def answer_columns(self) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True)
class _Renamed(_WithoutAnswers):
    """A result with the column names that a prepared statement promised before values were bound."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    query: BackendQueryRecord


@dataclass(frozen=True, slots=True)
class _Kept(_WithoutAnswers):
    """The rows that a change returned; one caller can read them."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    query: BackendQueryRecord


@dataclass(slots=True)
class FlightStatement:
    """A query (SQL or a serialized Substrait plan) that GetFlightInfo planned; DoGet runs it.

    A client can fetch the ticket again, which runs the query again, unless the query has several `parts`. The columns
    are always those that GetFlightInfo announced. `names` are the column names that were promised before values were
    bound; a column computed from parameters keeps its promised name.
    """

    session: BackendSession
    text: str | bytes
    parameters: pa.Table | None
    settings: Mapping[str, str]
    parts: int = 1
    names: tuple[str, ...] = ()
    returned: pa.Table | None = None
    """The rows of RETURNING: the change ran in GetFlightInfo, and a fetch never runs it again."""
    kept: KeptPlan | None = None
    """The plan that was made to describe the statement."""
    _schema: pa.Schema | None = None
    _waiting: BackendQueryResult | None = None
    _shared: Parts | None = None
    _running: list[BackendQueryRecord] = field(default_factory=list)
    _rights: object = None
    """The user's rights when the statement was planned."""
    _cancelled: bool = False
    _stopped: bool = False
    """Whether the query was running when it was cancelled."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _STATEMENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept, self._waiting, self._shared, self._running, self._rights = None, None, None, [], None
        for name in _STATEMENT:
            setattr(self, name, state[name])
        self._lock = threading.Lock()
        if self.returned is not None:
            self.keep(self.returned)

    def plan(self) -> BackendQueryResult:
        """Plan the query, so that its schema and id are known; it runs when its batches are pulled.

        Raises:
            InvalidInputError: the columns differ from those of the first plan.
        """
        rights = self.session.rights
        return self._waits(self._start(), rights)

    def plan_again(self) -> BackendQueryResult | None:
        """Take the plan that was made to describe the statement, as `plan` does, without reading a long text again.

        Returns None if there is no such plan, or if it is out of date.

        Raises:
            InvalidInputError: see `plan`.
        """
        if self.kept is None or isinstance(self.text, bytes) or self.parameters is not None:
            return None
        rights = self.session.rights
        planned = self.session.execute_planned(self.kept, self.text, self.settings)
        self.kept = None
        return None if planned is None else self._waits(planned, rights)

    def _waits(self, result: BackendQueryResult, rights: object) -> BackendQueryResult:
        """Let a planned result wait for its fetch."""
        with self._lock:
            if self._schema is None:
                self._schema = result.schema
            schema = self._schema
        if result.schema != schema:
            give_up(result)
            raise table_changed()
        with self._lock:
            self._rights = rights
            self._waiting = result
            self._running = [*filter(_is_alive, self._running), result.query]
            if self.parts > 1:
                self._shared = Parts(result, self.parts)
        return result

    def take(
        self,
        part: int = 0,
        again: Callable[[Callable[[], BackendQueryResult]], BackendQueryResult] = lambda plan: plan(),
    ) -> BackendQueryResult:
        """Return the planned result or a part of it, for one caller to pull; a second call plans again through `again`.

        Raises:
            CancelledError: the statement was cancelled before.
            NotFoundError: the part was taken before.
        """
        with self._lock:
            if self._cancelled:
                raise CancelledError("the query was cancelled")
            result, self._waiting = self._waiting, None
        if self.returned is not None:
            return self._kept(self.returned)
        if self.session.rights != self._rights:  # the plan can read data whose grant was revoked
            if result is not None:
                give_up(result)
            if self._shared is not None:
                raise PermissionDeniedError("your privileges have changed since planning: run the query again")
            result = None
        if self._shared is not None:
            return self._shared.take(part)
        if result is not None:
            return result
        again(self.plan)
        return self.take(part, again)

    def keep(self, returned: pa.Table) -> None:
        """Keep the rows that a change returned until the statement is dropped."""
        self._rights = self.session.rights
        self.returned = returned

    def _kept(self, returned: pa.Table) -> BackendQueryResult:
        if self.session.rights != self._rights:
            raise PermissionDeniedError("your privileges have changed since the change ran: query the table instead")
        record = Record("", str(self.text), user=self.session.principal.name)
        with self._lock:
            self._running = [*filter(_is_alive, self._running), record]
        return _Kept(returned.schema, _until_end(returned, record), record)

    def cancel(self) -> Cancelled:
        """Stop all running fetches of the query and prevent new ones. Idempotent; does not wait."""
        with self._lock:
            self._cancelled = True
            waiting, self._waiting = self._waiting, None
            running = list(self._running)
        alive = list(filter(_is_alive, running))
        for query in running:
            query.cancel()
        if waiting is not None:
            close_batches(waiting.batches)
        with self._lock:
            self._stopped = self._stopped or waiting is not None or bool(alive)
            stopped = self._stopped
        if alive and waiting is None:
            return Cancelled.CANCELLING
        return Cancelled.CANCELLED if stopped else Cancelled.NOT_CANCELLABLE

    def drop(self) -> None:
        """Drop a planned result that nobody fetched; a running fetch continues."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            give_up(waiting)

    def settle(self) -> bool:
        """Forget the fetches that have ended; return whether the statement neither runs nor waits for its fetch.

        Then a fetch runs the query again, also in another process.
        """
        with self._lock:
            self._running = [*filter(_is_alive, self._running)]
            return self._waiting is None and not self._running

    @property
    def can_move(self) -> bool:
        """Return whether another process can answer a fetch, once the statement has settled."""
        kept = self.returned is None or self.session.rights == self._rights
        return kept and self._shared is None

    def _start(self) -> BackendQueryResult:
        if isinstance(self.text, bytes):
            return self.session.execute_plan(self.text, self.settings)
        if self.parameters is None:
            planned = None if self.kept is None else self.session.execute_planned(self.kept, self.text, self.settings)
            self.kept = None
            return planned or self._execute(None)
        rows = each_row(self.parameters)
        if self.parameters.num_rows > 1:
            return Sequence(self._execute, rows, self.names)
        return self._execute(next(rows, _no_row(self.parameters.schema)))

    def _execute(self, row: pa.RecordBatch | None) -> BackendQueryResult:
        result = self.session.execute(str(self.text), row, settings=self.settings)
        schema = promised(result.schema, self.names)
        return result if schema is result.schema else _Renamed(schema, result.batches, result.query)


def promised(schema: pa.Schema, names: Names[str]) -> pa.Schema:
    """Return a schema in which columns computed from parameters keep the names promised before values were bound."""
    if len(names) != len(schema) or not any(map(_PARAMETER.search, names)):
        return schema
    return pa.schema([f.with_name(n) if _PARAMETER.search(n) else f for f, n in zip(schema, names, strict=True)])


def _until_end(returned: pa.Table, record: Record) -> Iterator[pa.RecordBatch]:
    record.begin()
    yield from returned.to_batches()
    record.finish("done")


def _is_alive(query: BackendQueryRecord) -> bool:
    return query.progress()["status"] in ("planned", "running")


def _no_row(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of no rows whose columns have the null type: Arrow cannot make empty arrays of unions."""
    return pa.RecordBatch.from_arrays([pa.nulls(0)] * len(schema), names=schema.names)
