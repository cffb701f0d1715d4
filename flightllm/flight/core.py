"""The state that all calls of one server share."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyarrow import flight

from flightllm.access.login import Login
from flightllm.common.admission import AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import Deadline, Refusals, Sum
from flightllm.common.principal import Principal
from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    FlightLLMError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.flight.activity import Activity
from flightllm.flight.auth import COOKIE, call_of
from flightllm.flight.backend import BackendDatabase, BackendQueryRecord, BackendSession
from flightllm.flight.bindings import forget
from flightllm.flight.bound_values import BoundValues
from flightllm.flight.buffered import StreamBytes
from flightllm.flight.kept import KeptPlans
from flightllm.flight.limits import FlightLimits
from flightllm.flight.load import ServerLoad
from flightllm.flight.long_texts import LongTexts, Turn, is_long
from flightllm.flight.planned import PlannedStatements
from flightllm.flight.planning_turns import PlanningTurn, PlanningTurns
from flightllm.flight.registry import Registry
from flightllm.flight.results import Recipient
from flightllm.flight.sessions import SessionStore
from flightllm.flight.sql_info import Value
from flightllm.flight.statements import FlightStatement, Prepared
from flightllm.flight.work import CallDeadline, do

_T = TypeVar("_T")
PART = b"."
"""Separates the statement's handle and the part's number in the ticket of a part."""
_MOST_SIGN_INS = 10_000
_PART_DIGITS = 9
"""The most digits of a part's number: Python refuses to parse thousands of digits."""


class Context(Protocol):
    """The call that a statement answers: pyarrow's `ServerCallContext`, or a call over another protocol."""

    def is_cancelled(self) -> bool:
        """Return whether the client left."""

    def get_middleware(self, key: str) -> Any:
        """Return the `CallerContext` under `CALL`."""


@dataclass(slots=True)
class Core:
    """The server's state: sessions, statements and bounds. Each part has its own lock."""

    database: BackendDatabase
    limits: FlightLimits
    info: Mapping[int, Value]
    login: Login
    stop: Callable[[], None] | None = None
    """Drains the server; None if the server shares its process with another program."""
    sessions: SessionStore = field(init=False)
    prepared: Registry[Prepared] = field(init=False)
    adrift: Sequence[BackendSession] = ()
    """Sessions of another process's connections, which ended with it: the client's next session has its statements."""
    bound: BoundValues = field(init=False)
    statements: Registry[FlightStatement] = field(init=False)
    planned: PlannedStatements = field(init=False)
    kept: KeptPlans = field(init=False)
    slots: AdmissionControl = field(init=False)
    long_texts: LongTexts = field(init=False)
    planning: PlanningTurns = field(default_factory=PlanningTurns)
    draining: threading.Event = field(default_factory=threading.Event)
    refusals: Refusals = field(default_factory=Refusals)
    waiting: StreamBytes = field(default_factory=StreamBytes)
    """The bytes that wait for clients in the streams of results."""
    uploading: StreamBytes = field(init=False)
    """The bytes of uploads that are in memory."""
    activity: Activity = field(default_factory=Activity)
    """The calls of clients, on all ports."""
    sign_ins: Registry[tuple[str, str]] = field(init=False)
    """User and login token of each cookie of the web page."""
    received: Sum = field(default_factory=Sum)
    """Bytes of uploads and parameters."""
    option_kinds: WeakKeyDictionary[BackendSession, dict[str, str]] = field(default_factory=WeakKeyDictionary)
    """The protocol's value type of each session option that a client set, by name."""

    def __post_init__(self) -> None:
        count, seconds = self.limits.statements, self.limits.unfetched_seconds
        self.sessions = SessionStore(self.database, self.limits)
        self.uploading = StreamBytes(self.limits.upload_bytes)
        self.bound = BoundValues(self.limits.upload_bytes)
        dropped = forget(self.bound, lambda handle: self.prepared.remove(handle))  # noqa: PLW0108 - made below
        self.prepared = Registry("prepared statement", count, seconds, dropped, _user_of)
        self.statements = Registry("query", count, seconds, FlightStatement.drop, _user_of)
        self.planned = PlannedStatements(self.limits.planned_seconds)
        self.kept = KeptPlans(self.limits.kept_plans, self.limits.planned_seconds)
        self.long_texts = LongTexts(self.limits)
        self.sign_ins = Registry("sign-in", _MOST_SIGN_INS, float("inf"), owner=lambda sign_in: sign_in[0])
        self.slots = AdmissionControl(
            self.limits.concurrent_queries,
            queue=self.limits.queued_queries,
            wait_seconds=self.limits.queue_seconds,
            poll_seconds=self.limits.poll_seconds,
        )

    def principal(self, context: flight.ServerCallContext) -> Principal:
        """Return the user who makes a call.

        Raises:
            UnauthenticatedError: the connection's certificate names no user.
        """
        known = call_of(context).principal
        return known or self.login.by_certificate(context.peer_identity().decode("utf-8", "replace"))

    def load(self) -> ServerLoad:
        """Return the current load of the server."""
        waits, waited = self.slots.waits()
        return ServerLoad(
            draining=self.draining.is_set(),
            running=self.slots.running,
            left_behind=self.slots.left_behind,
            places=self.slots.size,
            queued=self.slots.queued,
            waits=waits,
            waited_seconds=waited,
            sessions=len(self.sessions),
            received_bytes=self.received.value,
            refusals=self.refusals.counts(),
        )

    def check_admin(self, context: flight.ServerCallContext, what: str) -> None:
        """Raise `PermissionDeniedError` unless an admin makes the call; `what` names the action for the error."""
        principal = self.principal(context)
        if not principal.is_admin:
            raise PermissionDeniedError(
                f"{what} requires the admin role; {principal.name!r} has the role {principal.role}"
            )

    def session(self, context: flight.ServerCallContext) -> BackendSession:
        """Return the session of a call."""
        session, cookie = self.sessions.find(call_of(context), self.principal(context), context.peer())
        if cookie is not None:
            context.add_header("set-cookie", f"{COOKIE}={cookie}; HttpOnly")
        return session

    def prepared_of(self, context: flight.ServerCallContext, handle: bytes) -> Prepared:
        """Return a prepared statement of the caller; other users' statements are reported as not found.

        Raises:
            NotFoundError: the caller has no prepared statement with this handle.
        """
        prepared = self.prepared.get(handle)
        if prepared.session.principal != self.principal(context):
            raise self.prepared.missing()
        if any(prepared.session is one for one in self.adrift):
            prepared.move_to(self.session(context))
        return prepared

    def statement_of(self, context: flight.ServerCallContext, handle: bytes) -> tuple[FlightStatement, int]:
        """Return the caller's statement of a ticket, and the number of the part that the ticket fetches.

        Raises:
            NotFoundError: the ticket is unknown, its statement was dropped, or it belongs to another user.
        """
        name, mark, part = handle.partition(PART)
        statement = self.statements.get(name)
        readable = not mark or (part.isdigit() and len(part) <= _PART_DIGITS)
        if not readable or statement.session.principal != self.principal(context):
            raise self.statements.missing()
        return statement, int(part or 0)

    def query_of(self, principal: Principal, query_id: str) -> BackendQueryRecord:
        """Return a query of a user; an admin can get the queries of all users.

        Raises:
            NotFoundError: the user has no query with this id.
        """
        record = self.database.queries.get(query_id)
        if record.user != principal.name and not principal.is_admin:
            raise NotFoundError(f"there is no query {query_id!r} of yours; see system.queries")
        return record

    def admit(
        self, context: Context, session: BackendSession, cancel: Callable[[], None] = lambda: None
    ) -> AdmissionSlot:
        """Wait for a place for a statement of `session`; see `AdmissionControl.take`."""
        self.kept.sweep()
        self.planned.sweep()  # otherwise old plans would keep the former files of changed tables
        return self.slots.take(Requester(session.principal.name, session.id), context.is_cancelled, cancel)

    def recipient(self, context: Context, session: BackendSession, settings: Mapping[str, str]) -> Recipient:
        """Return the recipient of the result of a statement of `session`."""
        asker = Requester(session.principal.name, session.id)
        return Recipient(
            context.is_cancelled,
            asker,
            session.time_limit(settings),
            self.refusals.note,
            self.draining.is_set,
            self.waiting,
        )

    def run(
        self,
        context: Context,
        session: BackendSession,
        function: Callable[[], _T],
        *,
        text: str | bytes | None = None,
        stop: Callable[[FlightLLMError], None] = lambda _: None,
        discard: Callable[[_T], None] = lambda _: None,
        grace_seconds: float = 0.0,
    ) -> _T:
        """Do the work of a statement that this call answers, within a place and the session's time limit.

        `text` is the text or the plan that the work reads first; a long one waits for its turn.

        Raises:
            BusyError: no place is free.
            FlightLLMError: the function raised it; see also `do`.
        """
        limit = session.time_limit(call_of(context).settings)  # a wrong setting fails before a place is taken
        with self.database.queries.spans.attached(call_of(context).traceparent):
            end_turn = None

            def cancel() -> None:
                stop(CancelledError("the server stops"))

            if text is not None and is_long(text):  # its time runs while it waits, so that a crowd of them ends
                deadline = limit.start()
                place, turn = self._place_and_turn(context, session, text, deadline, cancel)
                function, end_turn = turn.during(function), turn.end_unused
            else:
                place = self.admit(context, session, cancel)
                deadline = limit.start()
                if text is not None:
                    planning = self._planning_turn(context, session, place, deadline)
                    function, end_turn = planning.during(function), planning.end_unused
            try:
                patience = CallDeadline(context.is_cancelled, deadline)
                return do(function, place, patience, stop=stop, discard=discard, grace_seconds=grace_seconds)
            except BaseException:
                if end_turn is not None:
                    end_turn()
                raise

    def _planning_turn(
        self, context: Context, session: BackendSession, place: AdmissionSlot, deadline: Deadline
    ) -> PlanningTurn:
        """Wait for a turn to plan a short text; give its place back if the wait ends without a turn."""
        asker = Requester(session.principal.name, session.id)
        try:
            return self.planning.turn(asker, lambda: context.is_cancelled() or deadline.over)
        except BaseException as error:
            place.release()
            if isinstance(error, CancelledError) and deadline.over:
                raise deadline.error() from None
            raise

    def _place_and_turn(
        self,
        context: Context,
        session: BackendSession,
        text: str | bytes,
        deadline: Deadline,
        cancel: Callable[[], None],
    ) -> tuple[AdmissionSlot, Turn]:
        """Wait for a place and for the turn to read a long text.

        The text waits for its turn outside the places. The turn never waits for a place: if all places are taken, the
        turn goes to another text. This text then waits for a place and keeps the place until its next turn.
        """
        asker = Requester(session.principal.name, session.id)

        def turn(own: int) -> Turn:
            def others() -> bool:
                return self.slots.running + self.slots.queued > own

            return self.long_texts.turn(
                asker, context.is_cancelled, deadline, others=others, plan=isinstance(text, bytes)
            )

        first = turn(0)
        try:
            place = self.slots.take_now(asker, cancel)
        except BaseException:
            first.end_unused()
            raise
        if place is not None:
            return place, first
        first.end_unused()
        place = self.admit(context, session, cancel)
        try:
            return place, turn(1)
        except BaseException:
            place.release()
            raise

    def refuse_when_draining(self) -> None:
        """Raise `EngineUnavailableError` if the server is shutting down."""
        if self.draining.is_set():
            raise EngineUnavailableError("the server is shutting down; connect again in a moment")


def _user_of(statement: Prepared | FlightStatement) -> str:
    return statement.session.principal.name


def check_transaction(session: BackendSession, message: Any) -> None:
    """Raise `NotFoundError` if a statement names a transaction that its session does not have."""
    if message.transaction_id:
        session.check_transaction(message.transaction_id)
