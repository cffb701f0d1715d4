"""Run a statement for the page, with the same limits and the same queue as statements of other clients."""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, TypeAlias

from flightllm.flight.backend import BackendQueryRecord
from flightllm.flight.core import Core
from flightllm.flight.results import pulled
from flightllm.flight.statements import FlightStatement
from flightllm.flight.updates import run_statement
from flightllm.web.calls import WebCall
from flightllm.web.cells import columns_of, rows_of
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
        self._events = self._told()

    def __next__(self) -> Event:
        """Return the next event."""
        return next(self._events)

    def close(self) -> None:
        """Stop the statement. No other thread must be waiting for an event; `call.leave` ends that wait."""
        self._events.close()

    def progress(self) -> Event | None:
        """Return a query's progress, or None before it is planned."""
        return None if self._query is None else {"event": "progress", **self._query.progress()}

    def _told(self) -> Generator[Event]:
        try:
            yield from self._run()
        except Exception as error:  # noqa: BLE001 - the boundary: the page gets the error, the log gets defects
            self._core.refusals.note(error)
            yield {"event": "error", **described(error, self._query.query_id if self._query else None)}

    def _run(self) -> Iterator[Event]:
        core, call = self._core, self._call
        core.refuse_when_draining()
        session = call.session(core)
        # this can be refused, so it runs before there is a result to close
        recipient = core.recipient(call, session, {})
        statement = FlightStatement(session, self._sql, None, {})
        outcome = run_statement(core, call, statement)
        if outcome.returned is not None:
            rows = outcome.returned.rows
            shown = rows.slice(0, self._most_rows)
            yield {"event": "columns", "query_id": "", "columns": columns_of(rows.schema)}
            for batch in shown.to_batches():
                yield {"event": "rows", "rows": rows_of(batch)}
            yield {"event": "end", "rows": shown.num_rows, "more": rows.num_rows > shown.num_rows}
            return
        if outcome.planned is None:
            yield {"event": "affected", "rows": outcome.affected if outcome.affected >= 0 else None}
            return
        result = statement.take()
        self._query = result.query
        sent, characters, more = 0, 0, False
        with closing(pulled(result, core.limits, core.slots, recipient)) as batches:
            first = next(batches, None)
            yield {"event": "columns", "query_id": result.query.query_id, "columns": columns_of(result.schema)}
            while first is not None and not more:
                room = self._most_rows - sent if characters < _MOST_CHARACTERS else 0
                rows = rows_of(first.slice(0, room))
                more = first.num_rows > room
                sent, characters = sent + len(rows), characters + sum(map(_length, rows))
                yield {"event": "rows", "rows": rows}
                first = None if more else next(batches, None)
        yield {"event": "end", "rows": sent, "more": more}


def _length(row: list[str | None]) -> int:
    return sum(len(cell) for cell in row if cell is not None)
