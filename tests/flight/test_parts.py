"""Parts of one result share its batches, its end and its failure."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import CancelledError, LimitExceededError, NotFoundError
from flightllm.flight.parts import Parts

SCHEMA = pa.schema([("a", pa.int64())])


def _result(support: Any, batches: Iterator[pa.RecordBatch]) -> Any:
    return support.Result(SCHEMA, batches, support.Record())


def _batches(count: int) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        yield pa.record_batch({"a": [i]}, schema=SCHEMA)


def test_each_batch_goes_to_one_part(support: Any) -> None:
    """Whichever part asks gets the next batch, and all of them end with the result."""
    result = _result(support, _batches(5))
    parts = Parts(result, 2)
    first, second = parts.take(1), parts.take(0)
    taken = [next(part)["a"][0].as_py() for part in (first, second, second, first, second)]
    assert taken == [0, 1, 2, 3, 4]
    assert list(first) == list(second) == []
    first.close()
    assert not result.query.cancelled.is_set()


def test_a_part_is_fetched_once(support: Any) -> None:
    """A part taken before, or one that never was, is gone."""
    parts = Parts(_result(support, _batches(1)), 2)
    parts.take(0)
    for index in (0, 2):
        with pytest.raises(NotFoundError, match="run the query again"):
            parts.take(index)


def test_taking_a_part_waits_for_no_batch(support: Any) -> None:
    """While one part waits for its batch, another one is taken at once."""
    making, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        making.set()
        go_on.wait(120)
        yield from _batches(1)

    parts = Parts(_result(support, slow()), 2)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(next, parts.take(0))
        assert making.wait(30)
        second = threads.submit(parts.take, 1)
        try:
            assert wait([second], 60).done
        finally:
            go_on.set()
        assert first.result()["a"][0].as_py() == 0


def test_a_failure_fails_every_part(support: Any) -> None:
    """No part ends as if the rows had been all."""

    def failing() -> Iterator[pa.RecordBatch]:
        yield from _batches(1)
        raise LimitExceededError("too much")

    parts = Parts(_result(support, failing()), 2)
    first, second = parts.take(0), parts.take(1)
    next(first)
    for part in (second, first, second):
        with pytest.raises(LimitExceededError):
            next(part)


def test_a_part_given_up_ends_the_others(support: Any) -> None:
    """A client that leaves one part half-way can no longer have the whole result."""
    result = _result(support, _batches(9))
    parts = Parts(result, 2)
    first, second = parts.take(0), parts.take(1)
    next(first)
    first.close()
    assert result.query.cancelled.is_set()
    with pytest.raises(CancelledError, match="another part of the result left"):
        next(second)
