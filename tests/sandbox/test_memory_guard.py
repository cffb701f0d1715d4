"""The guard of the process's memory stops the statement that grew most, and no other."""

from flightllm.errors import LimitExceededError
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import QueryRecord
from flightllm.sandbox.memory_guard import MemoryGuard


def _running(log: QueryLog) -> QueryRecord:
    record = log.plan("SELECT 1")
    record.begin()
    return record


def test_stops_what_grew_most() -> None:
    """Of two statements the one goes during which memory grew more; the other is left alone as memory comes back."""
    used = [100]
    log = QueryLog()
    guard = MemoryGuard(log, 1_000, 1_000, lambda: used[0])
    planned = log.plan("SELECT 2")
    first = _running(log)
    guard.look()
    used[0] = 900
    second = _running(log)
    guard.look()
    assert not first.stopped
    used[0] = 1_001
    guard.look()
    assert first.stopped
    assert isinstance(first.reason, LimitExceededError)
    assert "[limits] memory_bytes = 1,000" in str(first.reason)
    guard.look()
    used[0] = 500
    guard.look()
    assert not second.stopped
    assert not planned.stopped


def test_goes_on() -> None:
    """Where memory does not come back, the next statement is stopped after a while."""
    log = QueryLog()
    guard = MemoryGuard(log, 1_000, 1_000, lambda: 2_000)
    records = [_running(log), _running(log)]
    for _ in range(50):
        guard.look()
    assert all(record.stopped for record in records)


def test_caches_go_first() -> None:
    """The guard drops cached rows as soon as a query could not get its memory, and stops no statement for them."""
    log, used, asked = QueryLog(), [900], list[int]()

    def make_room(size: int) -> int:
        asked.append(size)
        used[0] -= 500
        return 500

    guard = MemoryGuard(log, 200, 1_000, lambda: used[0], make_room)
    record = _running(log)
    guard.look()
    assert asked == [100]
    guard.look()
    assert asked == [100]
    used[0] = 1_400
    guard.look()
    assert asked == [100, 600]
    assert not record.stopped
