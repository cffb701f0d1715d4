"""Run DDL and DML exactly once; stop it when the client leaves or the time limit passes."""

from functools import partial

import pyarrow as pa

from flightllm.flight.backend import BackendReturned, BackendSession
from flightllm.flight.core import Context, Core, call_of
from flightllm.observe.query_record import CancelToken

GRACE_SECONDS = 1.0
"""How long a stopped update can still report its end, so that a completed change is not reported as failed."""


def run_update(core: Core, context: Context, session: BackendSession, sql: str, parameters: pa.Table | None) -> int:
    """Run an update and return the rows affected, -1 if unknown.

    Raises:
        CancelledError: the client left before the end.
        StatementTimeoutError: the update took too long. It is stopped, and changes nothing unless it was already at its
            end.
    """
    cancelled, settings = CancelToken(), call_of(context).settings
    update = partial(session.update, sql, parameters, settings, cancelled=cancelled)
    return core.run(context, session, update, text=sql, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def run_returning(
    core: Core, context: Context, session: BackendSession, sql: str, parameters: pa.Table | None
) -> BackendReturned:
    """Run a change with RETURNING as `run_update` does; return the changed rows too."""
    cancelled, settings = CancelToken(), call_of(context).settings
    update = partial(session.update_returning, sql, parameters, settings, cancelled=cancelled)
    return core.run(context, session, update, text=sql, stop=cancelled.because, grace_seconds=GRACE_SECONDS)


def client_row_count(affected: int) -> int:
    """Return the row count for the client: 0 for statements that count no rows, such as DDL and SET.

    Avatica reads -1 as "there is a result set", opens it, and so runs the JDBC statement a second time.
    """
    return max(affected, 0)
