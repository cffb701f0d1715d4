"""Rows that wait for slow clients are bounded by bytes, for each stream and for all streams of a user."""

import queue
import threading

import pytest

from flightllm.common.fair_queue import Requester
from flightllm.flight.buffered import Buffer, StreamBytes

_MIB = 1 << 20


def _filled(asker: Requester, everything: StreamBytes, size: int) -> tuple[Buffer[int], int]:
    """Return a full buffer, and the number of items of this size that it took."""
    buffer: Buffer[int] = Buffer(asker, everything)
    count = 0
    while buffer.put(count, size, 0.0):
        count += 1
    return buffer, count


def test_a_stream_is_bounded() -> None:
    """A stream takes a few MiB, one item of any size, and few small items."""
    everything = StreamBytes()
    counts = [_filled(Requester("a", "1"), everything, size)[1] for size in (2 * _MIB, 100 * _MIB, 8)]
    assert counts == [2, 1, 8]


def test_users_share_all_bytes() -> None:
    """All streams of a user have a bound; another user has as large a part, and room comes back with the items."""
    everything, a, b = StreamBytes(20 * _MIB), Requester("a", "1"), Requester("b", "1")
    of_a = [_filled(a, everything, 2 * _MIB) for _ in range(8)]
    assert [count for _, count in of_a] == [2, 2, 2, 2, 2, 1, 1, 1]
    of_b = [_filled(b, everything, 2 * _MIB) for _ in range(3)]
    assert [count for _, count in of_b] == [2, 2, 1]
    assert everything.users == 2
    for buffer, _ in of_a:
        buffer.close()
        assert buffer.put(1, _MIB, 0.0)
        assert buffer.empty()
    assert everything.users == 1
    assert of_b[2][0].put(1, 2 * _MIB, 0.0)


def test_order_and_waits() -> None:
    """Items come out in order; a wait ends as soon as there is an item."""
    buffer: Buffer[int] = Buffer(Requester("a", "1"), StreamBytes())
    with pytest.raises(queue.Empty):
        buffer.get()
    threading.Thread(target=lambda: [buffer.put(number, 1, 30.0) for number in range(100)]).start()
    assert [buffer.get(30.0) for _ in range(100)] == list(range(100))
