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


class _Guarded:
    """A guard of 1,000 bytes over a scripted memory; `look` changes the memory, then lets the guard look."""

    def __init__(self) -> None:
        self.log = QueryLog()
        self.used = 100
        self.guard = MemoryGuard(self.log, 1_000, 1_000, lambda: self.used)
        self.guard.look()

    def begin(self) -> QueryRecord:
        record = _running(self.log)
        self.guard.look()
        return record

    def look(self, used: int, times: int = 1) -> None:
        for _ in range(times):
            self.used = used
            self.guard.look()


def test_short_ones_outlive_a_stopped_one() -> None:
    """While a stopped statement goes on and grows, statements that begin later are left alone."""
    guarded = _Guarded()
    hog = guarded.begin()
    guarded.look(1_001)
    assert hog.stopped
    waiting = guarded.begin()
    for used in range(1_100, 4_000, 50):
        short = guarded.begin()
        guarded.look(used)
        assert not short.stopped
        short.finish("done")
    assert not waiting.stopped
    hog.finish("failed")
    guarded.look(4_200, 10)
    guarded.look(4_000, 200)
    assert not guarded.begin().stopped
    assert not waiting.stopped


def test_a_timeout_counts_until_its_memory_is_back() -> None:
    """A statement that a timeout stopped answers for its memory too, also after its end."""
    guarded = _Guarded()
    beside, late = guarded.begin(), guarded.begin()
    hog = guarded.begin()
    guarded.look(900)
    late.finish("done")
    hog.cancel()
    hog.finish("failed")
    guarded.look(950)
    after = guarded.begin()
    guarded.look(1_400, 5)
    assert not beside.stopped
    assert not after.stopped
    guarded.look(150, 2)
    guarded.look(1_100)
    assert beside.stopped != after.stopped


def test_a_small_stopped_one_hides_nobody() -> None:
    """A cancelled statement during which memory hardly grew does not excuse the growth of others."""
    guarded = _Guarded()
    hog = guarded.begin()
    guarded.look(700)
    small = guarded.begin()
    small.cancel()
    guarded.look(1_001)
    assert hog.stopped


def test_what_grew_before_is_stopped_next() -> None:
    """Memory that does not come back stops nobody else; further growth after the end of a stopped statement does."""
    guarded = _Guarded()
    old = guarded.begin()
    guarded.look(600)
    young = guarded.begin()
    guarded.look(1_001)
    assert [old.stopped, young.stopped] == [True, False]
    guarded.look(1_001, 60)
    assert not young.stopped
    old.finish("failed")
    guarded.look(1_001, 30)
    guarded.look(1_100)
    assert young.stopped


def test_nothing_grew() -> None:
    """Where the process uses too much memory before any statement began, no statement is stopped for it."""
    guarded = _Guarded()
    guarded.look(2_000)
    records = [guarded.begin() for _ in range(3)]
    guarded.look(2_050, 100)
    assert not any(record.stopped for record in records)
    guarded.look(2_063)
    assert sum(record.stopped for record in records) == 1


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
