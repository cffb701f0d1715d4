"""Run statements of all kinds; DDL and DML run exactly once, and stop when the client leaves or its time is over."""

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from flightllm.errors import InvalidInputError
from flightllm.flight.auth import call_of
from flightllm.flight.backend import BackendQueryResult, BackendSession
from flightllm.flight.core import Context, Core
from flightllm.flight.long_texts import is_long
from flightllm.flight.statements import FlightStatement
from flightllm.observe.query_record import CancelToken
from flightllm.session.session import Returned

GRACE_SECONDS = 1.0
"""How long a stopped update can still report its end, so that a completed change is not reported as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a statement: a planned query, or a change that has run."""

    planned: BackendQueryResult | None = None
    returned: Returned | None = None
    """The rows of RETURNING."""
    affected: int = -1


def run_statement(
    core: Core,
    context: Context,
    statement: FlightStatement,
    *,
    is_update: bool | None = None,
    cancelled: CancelToken | None = None,
) -> Outcome:
    """Plan a query, or run a change; `is_update` is the kind of the statement if it is known.

    `cancelled` stops a change, and gets the id of its record.

    A long text is read in one turn, from its kind to its end.

    Raises:
        FlightLLMError: see `Core.run` and `run_update`.
    """
    session, settings, values = statement.session, statement.settings, statement.parameters
    if isinstance(statement.text, bytes) or is_update is False:
        return Outcome(planned=_planned(core, context, statement))
    sql = statement.text
    cancelled = cancelled or CancelToken()
    if is_long(sql):

        def work() -> Outcome:
            if not (is_update or session.is_update(sql, settings)):
                return Outcome(planned=statement.plan())
            if session.returns_rows(sql, settings):
                return Outcome(returned=session.update_returning(sql, values, settings, cancelled=cancelled))
            return Outcome(affected=session.update(sql, values, settings, cancelled=cancelled))

        def discard(outcome: Outcome) -> None:
            if outcome.planned is not None:
                statement.drop()

        stop, grace = cancelled.because, GRACE_SECONDS
        return core.run(context, session, work, text=sql, stop=stop, discard=discard, grace_seconds=grace)
    if not (is_update or session.is_update(sql, settings)):
        return Outcome(planned=_planned(core, context, statement))
    if session.returns_rows(sql, settings):
        return Outcome(returned=run_returning(core, context, session, sql, values, cancelled))
    return Outcome(affected=run_update(core, context, session, sql, values, cancelled=cancelled))


def _planned(core: Core, context: Context, statement: FlightStatement) -> BackendQueryResult:
    """Plan a query; a long text whose plan is at hand needs no turn."""

    def discard(_: BackendQueryResult | None) -> None:
        statement.drop()

    result = None
    if statement.kept is not None and is_long(statement.text):
        result = core.run(context, statement.session, statement.plan_again, discard=discard)
    if result is None:
        result = core.run(context, statement.session, statement.plan, text=statement.text, discard=discard)
    return result


def run_update(
    core: Core,
    context: Context,
    session: BackendSession,
    sql: str,
    parameters: pa.Table | None,
    *,
    asks_kind: bool = False,
    cancelled: CancelToken | None = None,
) -> int:
    """Run an update and return the rows affected, -1 if unknown; `asks_kind` refuses a query.

    Raises:
        CancelledError: the client left before the end.
        StatementTimeoutError: the update took too long. It is stopped, and changes nothing unless it was already at its
            end.
        InvalidInputError: the statement is a query.
    """
    cancelled, settings = cancelled or CancelToken(), call_of(context).settings

    def update() -> int:
        if asks_kind and not session.is_update(sql, settings):
            raise InvalidInputError("the statement returns rows: execute it as a query, not as an update")
        return session.update(sql, parameters, settings, cancelled=cancelled)

    return core.run(context, session, update, text=sql, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def run_returning(
    core: Core,
    context: Context,
    session: BackendSession,
    sql: str,
    parameters: pa.Table | None,
    cancelled: CancelToken,
) -> Returned:
    """Run a change with RETURNING as `run_update` does; return the changed rows too."""
    settings = call_of(context).settings
    update = partial(session.update_returning, sql, parameters, settings, cancelled=cancelled)
    return core.run(context, session, update, text=sql, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def client_row_count(affected: int) -> int:
    """Return the row count for the client: 0 for statements that count no rows, such as DDL and SET.

    Avatica reads -1 as "there is a result set", opens it, and so runs the JDBC statement a second time.
    """
    return max(affected, 0)
