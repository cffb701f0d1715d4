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
    """With every place taken another query waits, then is told so."""
    slots = _slots(1)
    first = stream(_result(support, _batches(10_000)), LIMITS, slots, STAYING)
    next(first)
    second = _result(support, _batches(1))
    with pytest.raises(flight.FlightUnavailableError, match=r"\[limits\] concurrent_queries = 1"):
        next(stream(second, LIMITS, slots, STAYING))
    assert second.query.cancelled.is_set()
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


def test_unread_results_give_way(support: Any) -> None:
    """Of a user whose unread results hold all places, as many are given up as others wait for, and no more."""
    limits = FlightLimits(poll_seconds=0.01, crowded_seconds=0.02)
    slots = AdmissionControl(2, queue=8, wait_seconds=60.0, poll_seconds=0.01)
    greedy = [_result(support, _batches(10_000)) for _ in range(2)]
    readers = [Recipient(lambda: False, Requester("carol", session)) for session in ("1", "2")]
    unread = [stream(result, limits, slots, reader) for result, reader in zip(greedy, readers, strict=True)]
    for rows in unread:
        next(rows)
    modest = Recipient(lambda: False, Requester("dave", "1"))
    for _ in range(3):
        assert len(list(stream(_result(support, _batches(3)), limits, slots, modest))) > 0
    assert sum(result.query.stopped for result in greedy) == 1
    for rows, result in zip(unread, greedy, strict=True):
        if result.query.stopped:
            with pytest.raises(flight.FlightCancelledError, match="while others waited for a place"):
                list(rows)
        else:
            assert next(rows).num_rows > 0
            rows.close()  # type: ignore[attr-defined]
    _free(slots)
