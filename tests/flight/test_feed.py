"""The batches of uploads in memory are bounded, and users share the bound."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.admission import AdmissionControl
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import Deadline
from flightllm.errors import BusyError
from flightllm.flight.buffered import StreamBytes
from flightllm.flight.feed import UploadQueue
from flightllm.flight.limits import FlightLimits
from flightllm.flight.work import CallDeadline
from flightllm.observe.query_record import CancelToken
from tests.servers import await_true

BATCH = pa.record_batch({"a": pa.array(range(1_000), pa.int64())})
SIZE = BATCH.get_total_buffer_size()


class Uploads:
    """Uploads of several users to one server that can hold four batches in memory."""

    def __init__(self) -> None:
        self.everything = StreamBytes(4 * SIZE)
        self._places = AdmissionControl(9, queue=9, wait_seconds=30, poll_seconds=0.01)
        self._threads: list[threading.Thread] = []
        self._futures: list[Future[Any]] = []

    def begin(self, user: str, batches: int, *, keeps: bool = False) -> tuple[UploadQueue, list[int]]:
        """Begin to read an upload; return its queue, and a list with a number for each batch that was read."""
        read: list[int] = []

        def chunks() -> Iterator[Any]:
            for number in range(batches):
                read.append(number)
                yield SimpleNamespace(data=BATCH)

        place = self._places.take(Requester(user, ""), lambda: False)
        limits = replace(FlightLimits(), poll_seconds=0.01, upload_bytes=4 * SIZE)
        patience = CallDeadline(lambda: False, Deadline())
        reader = type("Reader", (), {"schema": BATCH.schema, "__iter__": lambda _: chunks()})()
        feed = UploadQueue(reader, limits, CancelToken(), patience, place, self.everything, keeps=keeps)
        work: Future[Any] = Future()
        thread = threading.Thread(target=lambda: feed.read(work), daemon=True)
        thread.start()
        self._threads.append(thread)
        self._futures.append(work)
        return feed, read

    def close(self) -> None:
        """End all uploads."""
        for work in self._futures:
            work.cancel()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    """Return a server's uploads."""
    opened = Uploads()
    yield opened
    opened.close()


def test_a_user_waits_for_room(uploads: Uploads) -> None:
    """Uploads of one user read no further batch while they hold their part; another user's upload goes on."""
    begun = [uploads.begin("a", 9) for _ in range(5)]
    await_true(lambda: sum(feed._is_full for feed, _ in begun) >= 1)
    await_true(lambda: all(feed._is_full or len(read) == 3 or feed._items.full() for feed, read in begun))
    held = sum(len(read) for _, read in begun)
    assert held <= 4 + len(begun)  # each can have read one batch before the others counted
    other, other_read = uploads.begin("b", 3)
    assert [next(other).data for _ in range(3)] == [BATCH] * 3
    assert next(other, None) is None
    assert len(other_read) == 3
    with ThreadPoolExecutor(len(begun)) as workers:  # who pulls makes room
        assert list(workers.map(lambda one: len(list(one[0])), begun)) == [9] * len(begun)


def test_bytes_come_back(uploads: Uploads) -> None:
    """Nothing counts any more once the uploads have ended, whether they were read to their end or not."""
    whole, _ = uploads.begin("a", 3)
    assert len(list(whole)) == 3
    begun, read = uploads.begin("b", 9)
    next(begun)
    await_true(lambda: len(read) >= 3)
    assert uploads.everything.users == 1
    begun.close()
    assert uploads.everything.users == 0


def test_what_must_be_in_memory_is_refused(uploads: Uploads) -> None:
    """Parameters that do not fit beside the user's other uploads are an error that names the limit, and no wait."""
    first, _ = uploads.begin("a", 3, keeps=True)
    assert len(list(first)) == 3
    second, _ = uploads.begin("a", 9, keeps=True)
    with pytest.raises(BusyError, match=r"the uploads of this user hold all of their .* upload_bytes"):
        list(second)
    second.close()
    other, _ = uploads.begin("b", 2, keeps=True)
    assert len(list(other)) == 2
    first.close()
    again, _ = uploads.begin("a", 2, keeps=True)
    assert len(list(again)) == 2
