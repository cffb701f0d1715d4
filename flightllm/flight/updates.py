"""Run DDL and DML exactly once, stopping when the client goes or the time is up."""

from functools import partial

import pyarrow as pa

from flightllm.flight.backend import Returned, Session
from flightllm.flight.core import Context, Core, call_of
from flightllm.observe.query_record import Stop

GRACE_SECONDS = 1.0
"""How long an update that is told to stop may still say how it ended: what took effect is not called a failure."""


def run_update(core: Core, context: Context, session: Session, sql: str, parameters: pa.Table | None) -> int:
    """Run an update and return the rows affected, -1 if unknown.

    Raises:
        CancelledError: the client left before the end.
        StatementTimeoutError: it took too long; it is told to stop, and changes nothing unless it is ending already.
    """
    cancelled, settings = Stop(), call_of(context).settings
    update = partial(session.update, sql, parameters, settings, cancelled=cancelled)
    return core.run(context, session, update, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def run_returning(core: Core, context: Context, session: Session, sql: str, parameters: pa.Table | None) -> Returned:
    """Run a change with RETURNING as `run_update` does; return what it returns too."""
    cancelled, settings = Stop(), call_of(context).settings
    update = partial(session.update_returning, sql, parameters, settings, cancelled=cancelled)
    return core.run(context, session, update, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def told(affected: int) -> int:
    """Return the count that a client is told: 0 for what counts no rows, such as DDL and SET.

    Avatica takes -1 for "there is a result set", opens it, and so runs the statement of JDBC a second time.
    """
    return max(affected, 0)
