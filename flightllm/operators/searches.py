"""Run searches in vector indexes for the rows of an operator: many queries at a time, each distinct query once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import check_cancelled
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.rows import Counters
from flightllm.plan.stages import StageCall

_ROWS: Final = 65_536
"""The window of rows within which each distinct query is searched once."""
_QUERIES: Final = 1_024
"""Queries per search, and rows per output batch."""
_FOUND: Final = 262_144
"""The most rows that one search returns; a window of rows keeps at most sixteen times as many."""


class SearchCall(Protocol):
    """One call's search in an open index."""

    @property
    def most(self) -> int:
        """Return the most rows that a query can find."""

    def find(self, queries: pa.Array) -> pa.ListArray:
        """Return for each query text a list of row numbers and scores, best first."""

    def values(self, found: pa.ListArray) -> pa.ListArray:
        """Return the call's value for each list of rows found; NULL where `found` is NULL."""


class Searcher(Protocol):
    """The service that answers calls of the backend `search`."""

    def open(self, instruction: str) -> SearchCall:
        """Open the index that a call searches, by the `instruction` of the call."""


class QueryColumn:
    """A column of queries. Each distinct query is searched once, when the first row with this query is answered."""

    def __init__(self, search: SearchCall, queries: pa.Array, counters: Counters) -> None:
        encoded = queries.dictionary_encode()
        self._places, self._distinct = encoded.indices, encoded.dictionary
        self._search = search
        self._counters = counters
        self._found = search.find(self._distinct[:0])
        counters.add(prompts_expected=len(self._distinct))

    def answers(self, start: int, count: int) -> pa.ListArray:
        """Return the answers of `count` rows from the row `start` on."""
        places = self._places.slice(start, count)
        last = pc.max(places).as_py()
        while last is not None and len(self._found) <= last:
            queries = self._distinct.slice(len(self._found), _at_once(self._search))
            self._found = pa.concat_arrays([self._found, self._search.find(queries)])
            self._counters.add(distinct_prompts=len(queries), calls=len(queries))
        self._counters.add(rows=len(places))
        return self._search.values(self._found.take(places))


def run_searches(
    calls: Sequence[tuple[StageCall, SearchCall, Counters]],
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    tracker: LimitTracker,
    cancelled: Callable[[], bool],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with one more column per call; `schema` is that of the result. Rows keep their order.

    Raises:
        CancelledError: `cancelled()` turned true.
    """
    most = min((_at_once(search) for _, search, _ in calls), default=_QUERIES)
    kept = min((16 * _FOUND // search.most for _, search, _ in calls), default=_ROWS)
    for rows in _joined(batches, min(_ROWS, kept)):
        columns = [QueryColumn(search, _queries(call, rows), counters) for call, search, counters in calls]
        start = 0
        while start < len(rows):
            check_cancelled(cancelled)
            count = min(most, tracker.trials_needed()) if tracker.limited else most
            some = rows.slice(start, count)
            answers = [column.answers(start, count) for column in columns]
            yield pa.RecordBatch.from_arrays([*some.columns, *answers], schema=schema)
            tracker.add_trials(len(some))
            start += count


def _at_once(search: SearchCall) -> int:
    return max(1, min(_QUERIES, _FOUND // search.most))


def _joined(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Join batches into larger ones of at least `count` rows; the last can have fewer."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= count:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _queries(call: StageCall, rows: pa.RecordBatch) -> pa.Array:
    """Return the queries of a call, NULL where a row does not need its answer."""
    queries = rows.column(call.arguments[0])
    return queries if call.when is None else pc.if_else(rows.column(call.when), queries, None)
