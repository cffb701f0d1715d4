"""Run a statement for the page, with the same limits and the same queue as statements of other clients."""

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import Any, TypeAlias

from flightllm.client import Progress
from flightllm.common.cells import columns_of, rows_of
from flightllm.errors import NotFoundError
from flightllm.flight.backend import BackendQueryRecord
from flightllm.flight.core import Core
from flightllm.flight.results import pulled
from flightllm.flight.statements import FlightStatement
from flightllm.flight.updates import run_statement
from flightllm.observe.query_record import CancelToken
from flightllm.web.calls import WebCall
from flightllm.web.errors import described

MOST_ROWS = 10_000
"""The most rows that the page can ask for."""
_MOST_CHARACTERS = 16_000_000
"""The most characters of a result; further rows are not sent, because browsers cannot show them."""

Event: TypeAlias = dict[str, Any]
"""One of `columns`, `rows`, `end`, `affected` and `error`, by the key `event`."""


class StatementRun(Iterator[Event]):
    """The events of a statement. It runs in the thread that asks for the next event; a failure is an event too."""

    def __init__(self, core: Core, call: WebCall, sql: str, most_rows: int) -> None:
        self._core = core
        self._call = call
        self._sql = sql
        self._most_rows = most_rows
        self._query: BackendQueryRecord | None = None
        self._change = CancelToken()
        self._events = self._told()

    def __next__(self) -> Event:
        """Return the next event."""
        return next(self._events)

    def close(self) -> None:
        """Stop the statement. No other thread must be waiting for an event; `call.leave` ends that wait."""
        self._events.close()

    def progress(self) -> Event | None:
        """Return a query's progress, or None before it is planned."""
        query = self._record()
        return None if query is None else {"event": "progress", **query.progress()}

    def _record(self) -> BackendQueryRecord | None:
        """Return the record of the query, or of the change that runs, if there is one yet."""
        if self._query is None and self._change.query_id:
            with suppress(NotFoundError):  # it can be among those that the log has dropped
                self._query = self._core.database.queries.get(self._change.query_id)
        return self._query

    def _end(self, event: Event, rows: int | None = None) -> Event:
        """Return the last event, with a line about the model calls; without `rows` the record counts them."""
        query = self._record()
        if query is None:
            return {"query_id": None, **event, "summary": ""}
        work = Progress.read(query.progress())
        return {**event, "query_id": query.query_id, "summary": work.summary(work.rows if rows is None else rows)}

    def _told(self) -> Generator[Event]:
        try:
            yield from self._run()
        except Exception as error:  # noqa: BLE001 - the boundary: the page gets the error, the log gets defects
            self._core.refusals.note(error)
            yield self._end({"event": "error", **described(error, self._query.query_id if self._query else None)})

    def _run(self) -> Iterator[Event]:
        core, call = self._core, self._call
        core.refuse_when_draining()
        session = call.session(core)
        # this can be refused, so it runs before there is a result to close
        recipient = core.recipient(call, session, {})
        statement = FlightStatement(session, self._sql, None, {})
        outcome = run_statement(core, call, statement, cancelled=self._change)
        if outcome.returned is not None:
            returned = outcome.returned.rows
            shown = returned.slice(0, self._most_rows)
            yield {"event": "columns", "query_id": "", "columns": columns_of(returned.schema)}
            for batch in shown.to_batches():
                yield {"event": "rows", "rows": rows_of(batch)}
            end = {"event": "end", "rows": shown.num_rows, "more": returned.num_rows > shown.num_rows}
            yield self._end(end, returned.num_rows)
            return
        if outcome.planned is None:
            affected = outcome.affected if outcome.affected >= 0 else None
            yield self._end({"event": "affected", "rows": affected}, affected or 0)
            return
        result = statement.take()
        self._query = result.query
        sent, characters, more = 0, 0, False
        with closing(pulled(result, core.limits, core.slots, recipient)) as batches:
            first = next(batches, None)
            answers = result.answer_columns()
            columns = {"columns": columns_of(result.schema), "answers": None if answers is None else list(answers)}
            yield {"event": "columns", "query_id": result.query.query_id, **columns}
            while first is not None and not more:
                room = self._most_rows - sent if characters < _MOST_CHARACTERS else 0
                rows = rows_of(first.slice(0, room))
                more = first.num_rows > room
                sent, characters = sent + len(rows), characters + sum(map(_length, rows))
                yield {"event": "rows", "rows": rows}
                first = None if more else next(batches, None)
        yield self._end({"event": "end", "rows": sent, "more": more}, sent)


def _length(row: list[str | None]) -> int:
    return sum(len(cell) for cell in row if cell is not None)
