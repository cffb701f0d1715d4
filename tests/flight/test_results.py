"""Results stream ahead of the client, and stop with it."""

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.common.admission import AdmissionControl
from flightllm.common.fair_queue import Requester
from flightllm.errors import CancelledError
from flightllm.flight.limits import FlightLimits
from flightllm.flight.results import Recipient, ResultStream, stream
from flightllm.flight.sequence import Sequence
from tests.servers import await_true

SCHEMA = pa.schema([("a", pa.int64())])
STAYING = Recipient(lambda: False)
LIMITS = FlightLimits(poll_seconds=0.01, queue_seconds=0.05)


def _slots(size: int = 1) -> AdmissionControl:
    return AdmissionControl(size, queue=8, wait_seconds=LIMITS.queue_seconds, poll_seconds=LIMITS.poll_seconds)


def _free(slots: AdmissionControl) -> None:
    """Wait until every place is given back: the thread that made the rows does it, at its end."""
    await_true(lambda: not slots.running)


def _result(support: Any, batches: Iterator[pa.RecordBatch]) -> Any:
    return support.Result(SCHEMA, batches, support.Record())


def _batches(count: int) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        yield pa.record_batch({"a": [i]}, schema=SCHEMA)


def test_all_rows_arrive_in_order(support: Any) -> None:
    """Joining what is ready together changes neither rows nor order."""
    rows = list(stream(_result(support, _batches(500)), LIMITS, _slots(), STAYING))
    assert [n for part in rows for n in part["a"].to_pylist()] == list(range(500))


def test_a_row_is_not_held_back(support: Any) -> None:
    """A row that is ready goes out while the next one is still computed."""
    go_on = threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield from _batches(1)
        go_on.wait(30)
        yield from _batches(1)

    rows = stream(_result(support, slow()), LIMITS, _slots(), STAYING)
    assert next(rows).num_rows == 1
    go_on.set()
    assert next(rows).num_rows == 1


def test_a_blocked_query_is_cancelled_when_the_client_goes(support: Any) -> None:
    """The client's leaving is noticed although no batch ever came."""
    result, slots = _result(support, iter(())), _slots()

    def blocked() -> Iterator[pa.RecordBatch]:
        result.query.cancelled.wait(30)
        yield from ()

    result = support.Result(SCHEMA, blocked(), result.query)
    with pytest.raises(flight.FlightCancelledError):
        next(stream(result, LIMITS, slots, Recipient(lambda: True)))
    assert result.query.cancelled.is_set()
    _free(slots)


def test_closing_the_stream_stops_the_query(support: Any) -> None:
    """A client that stops reading half-way ends the query and frees its place."""
    result, slots = _result(support, _batches(10_000)), _slots()
    rows = stream(result, LIMITS, slots, STAYING)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert result.query.cancelled.is_set()
    _free(slots)


def test_a_finished_query_is_not_cancelled(support: Any) -> None:
    """Reading to the end leaves the query's record alone."""
    result = _result(support, _batches(3))
    list(stream(result, LIMITS, _slots(), STAYING))
    assert not result.query.cancelled.is_set()


def test_places_are_bounded(support: Any) -> None:
    """With every place taken by queries that compute, another query waits, then is told so."""
    slots, go_on = _slots(1), threading.Event()

    def computing() -> Iterator[pa.RecordBatch]:
        yield from _batches(1)
        go_on.wait(30)

    first = stream(_result(support, computing()), LIMITS, slots, STAYING)
    next(first)
    second = _result(support, _batches(1))
    with pytest.raises(flight.FlightUnavailableError, match=r"\[limits\] concurrent_queries = 1"):
        next(stream(second, LIMITS, slots, STAYING))
    assert second.query.cancelled.is_set()
    go_on.set()
    first.close()  # type: ignore[attr-defined]


def test_a_stream_nobody_began_to_read_ends_its_query(support: Any) -> None:
    """A client that goes between planning and the first row leaves nothing running."""
    result = _result(support, _batches(3))
    unread = ResultStream(result, LIMITS, _slots(), STAYING)
    del unread
    assert result.query.cancelled.is_set()
    assert list(result.batches) == []


def test_a_sequence_is_one_result(support: Any) -> None:
    """Rows of parameters run one after the other; cancelling stops the running one and starts no other."""
    started: list[Any] = []

    def execute(row: pa.RecordBatch) -> Any:
        started.append(_result(support, iter([row])))
        return started[-1]

    sequence = Sequence(execute, list(_batches(3)))
    assert next(sequence)["a"].to_pylist() == [0]
    assert next(sequence)["a"].to_pylist() == [1]
    sequence.cancel()
    with pytest.raises(CancelledError):
        next(sequence)
    assert [result.query.cancelled.is_set() for result in started] == [False, True]


def test_unread_results_hold_no_place(support: Any) -> None:
    """Slow clients whose results wait keep nobody out, and get all their rows when they read on."""
    limits = FlightLimits(poll_seconds=0.01)
    slots = AdmissionControl(2, queue=8, wait_seconds=60.0, poll_seconds=0.01)
    greedy = [_result(support, _batches(count)) for count in (1_000, 3)]
    readers = [Recipient(lambda: False, Requester("carol", session)) for session in ("1", "2")]
    unread = [stream(result, limits, slots, reader) for result, reader in zip(greedy, readers, strict=True)]
    got = [next(rows).num_rows for rows in unread]
    await_true(lambda: slots.paused == 2)
    modest = Recipient(lambda: False, Requester("carol", "3"))
    assert sum(rows.num_rows for rows in stream(_result(support, _batches(3)), limits, slots, modest)) == 3
    got = [count + sum(part.num_rows for part in rows) for count, rows in zip(got, unread, strict=True)]
    assert got == [1_000, 3]
    assert not any(result.query.stopped for result in greedy)
    _free(slots)


def test_beyond_the_paused_ones_unread_results_give_way(support: Any) -> None:
    """A user with too many unread results keeps places, and loses one of them to who waits for a place."""
    limits = FlightLimits(poll_seconds=0.01, crowded_seconds=0.02)
    slots = AdmissionControl(1, queue=8, wait_seconds=60.0, poll_seconds=0.01)
    greedy = [_result(support, _batches(10_000)) for _ in range(5)]
    reader = Recipient(lambda: False, Requester("carol", "1"))
    unread = [stream(result, limits, slots, reader) for result in greedy]
    for number, rows in enumerate(unread):
        await_true(lambda number=number: slots.paused == number)  # type: ignore[misc]
        next(rows)
    modest = Recipient(lambda: False, Requester("dave", "1"))
    assert sum(rows.num_rows for rows in stream(_result(support, _batches(3)), limits, slots, modest)) == 3
    assert [result.query.stopped for result in greedy] == [False] * 4 + [True]
    with pytest.raises(flight.FlightCancelledError, match="while others waited for a place"):
        list(unread.pop())
    for rows in unread:
        rows.close()  # type: ignore[attr-defined]
    _free(slots)
