"""Run and describe SQL for one connection, by the same ways, places and limits as calls over Flight."""

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from flightllm.errors import PermissionDeniedError
from flightllm.execution.describe import Description
from flightllm.flight.backend import BackendQueryRecord
from flightllm.flight.core import Core
from flightllm.flight.results import give_up, pulled
from flightllm.flight.statements import FlightStatement
from flightllm.flight.updates import run_statement
from flightllm.observe.query_record import CancelToken
from flightllm.postgres.calls import PostgresCall
from flightllm.postgres.failures import WireError
from flightllm.postgres.prepared import Portal
from flightllm.postgres.results import Result, table_result
from flightllm.postgres.tags import tag_of
from flightllm.sql.tokens import tokenize

_CHANGE_NOTHING = ("begin", "start", "commit", "end", "rollback", "abort", "set", "reset", "use")


class Engine:
    """Runs the statements of one connection."""

    def __init__(self, core: Core, call: PostgresCall) -> None:
        self.core = core
        self.call = call
        self.changes = 0
        """The statements so far that changed something."""
        self.is_read_only: Callable[[], bool] = lambda: False
        """Returns whether the transaction must change nothing."""
        self.changes_at_begin = 0
        """The same when the transaction began."""

    def is_update(self, sql: str) -> bool:
        """Return whether a statement changes something; only its text is read."""
        return self.call.session(self.core).is_update(sql)

    def check_writable(self, what: str) -> None:
        """Check that a change can run.

        Raises:
            WireError: the transaction is read-only.
        """
        if self.is_read_only():
            raise WireError("25006", f"cannot execute {what} in a read-only transaction")

    @property
    def rights(self) -> object:
        """Return a value that changes with the rights of the user."""
        return self.call.session(self.core).rights

    def check_rights(self, portal: Portal) -> None:
        """End a portal if the user's rights changed, because it can hold rows that the user must no longer see.

        Raises:
            PermissionDeniedError: the rights changed since the portal's query was started.
        """
        if portal.rights is not None and portal.rights != self.rights:
            portal.close()
            raise PermissionDeniedError("your rights changed since the query was started: run it again")

    def describe(self, sql: str, types: Sequence[pa.DataType | None] = ()) -> Description:
        """Plan a statement without running it; `types` are those that the client declared.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        session = self.call.session(self.core)

        def plan() -> Description:
            found = session.describe(sql, None)
            wanted = len(found.parameters)
            if not wanted or not any(kind is not None for kind in types[:wanted]):
                return found
            given = [
                kind or field.type for kind, field in zip([*types, *[None] * wanted], found.parameters, strict=False)
            ]
            names = [str(index) for index in range(wanted)]
            row = pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in given], names=names)
            again = session.describe(sql, row)
            parameters = pa.schema(
                [
                    field if field.type == kind else pa.field(field.name, kind)
                    for field, kind in zip(found.parameters, given, strict=True)
                ]
            )
            return Description(again.schema, again.is_update, parameters)

        return self.core.run(self.call, session, plan, text=sql)

    def start(self, sql: str, values: pa.Table | None = None, promised: Description | None = None) -> Result:
        """Run a change, or plan a query that runs while its rows are read.

        Raises:
            FlightLLMError: the statement is wrong, refused or cancelled.
        """
        core, call = self.core, self.call
        core.refuse_when_draining()
        session = call.session(core)
        recipient = core.recipient(call, session, {})
        names = tuple(promised.schema.names) if promised is not None and len(promised.parameters) else ()
        statement = FlightStatement(session, sql, values, {}, names=names)
        if promised is not None and values is None:
            statement.kept = promised.plan
        tokens = tokenize(sql)
        tag, token = tag_of(tokens), CancelToken()
        changes = self.is_read_only() and not tokens[0].is_word(*_CHANGE_NOTHING) and session.is_update(sql)
        if changes and not session.changes_temporary(sql):  # as in PostgreSQL, these rows are the session's own
            made = tag(0) == "SELECT 0"
            self.check_writable("CREATE TABLE AS" if made else tag(-1).rstrip("0 "))
        outcome = run_statement(core, call, statement, cancelled=token)
        if outcome.planned is None and not tokens[0].is_word(*_CHANGE_NOTHING):
            self.changes += 1
        if outcome.returned is not None:
            found = table_result(outcome.returned.rows, tag)
            found.warnings = partial(self._warnings, token)
            return found
        if outcome.planned is None:
            return Result(None, iter(()), tag, affected=outcome.affected, warnings=partial(self._warnings, token))
        result = statement.take()
        batches = pulled(result, core.limits, core.slots, recipient)
        stopped, end = (lambda: result.query.stopped), partial(give_up, result)
        return Result(
            result.schema, batches, tag, is_stopped=stopped, give_up=end, warnings=partial(_warnings, result.query)
        )

    def _warnings(self, token: CancelToken) -> Sequence[str]:
        """Return what a change lacks; nothing for a statement without a record."""
        return () if not token.query_id else _warnings(self.core.database.queries.get(token.query_id))


def _warnings(query: BackendQueryRecord) -> Sequence[str]:
    return list(query.progress().get("warnings", ()))
