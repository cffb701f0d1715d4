"""The queue of a replica: cached prompts sooner, all in the end, interactive ones before bulk, whoever asks."""

import threading
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flightllm.engines.shares import Share, Shares
from flightllm.router.pace import Arrivals, Pace
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import LEAST_URGENT, OVERTAKES, Lane, ReplicaQueue


def prompts(first: int, count: int, priority: int = 0) -> list[RoutedPrompt]:
    """Return prompts with keys from `first` on."""
    return [RoutedPrompt(first + n, b"", 1, priority=priority) for n in range(count)]


class _Cached:
    """The cached share of each thousand of keys, which a test can change."""

    def __init__(self, *shares: float) -> None:
        self.shares = list(shares)

    def __call__(self, prompt: RoutedPrompt) -> float:
        """Return the share of a prompt's thousand."""
        return self.shares[prompt.key // 1_000]


def first(*lanes: Lane) -> int:
    """Return the place of the lane that the queue names, of equals the first one."""
    ranks = lanes[0].ranks(lanes)
    return ranks.index(min(ranks))


def drawn(*lanes: Lane, most: int = 1 << 30) -> list[int]:
    """Take prompts from the lanes that their queue names, and return their keys."""
    keys: list[int] = []
    while len(keys) < most and (waiting := [lane for lane in lanes if lane]):
        found = waiting[first(*waiting)].pop()
        assert found is not None
        keys.append(found.key)
    return keys


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2), st.floats(0, 1)), max_size=20))
def test_all_come_out_once(pushed: list[tuple[int, int, int, float]]) -> None:
    """Every prompt of every lane comes out once: lower priorities first, and each run in its order."""
    cached = _Cached(*(share for *_, share in pushed))
    queue = ReplicaQueue(cached)
    lanes = [queue.open() for _ in range(4)]
    for number, (lane, count, priority, _) in enumerate(pushed):
        lanes[lane].push(prompts(1_000 * number, count, priority))
    assert len(queue) == sum(len(lane.waiting()) for lane in lanes) == sum(count for _, count, *_ in pushed)
    keys = drawn(*lanes)
    assert sorted(keys) == [1_000 * number + n for number, (_, count, *_) in enumerate(pushed) for n in range(count)]
    priorities = [pushed[key // 1_000][2] for key in keys]
    assert priorities == sorted(priorities)
    for number in range(len(pushed)):
        run = [key for key in keys if key // 1_000 == number]
        assert run == sorted(run)


def test_a_wave_of_several_priorities() -> None:
    """Prompts that are routed together come by priority, and otherwise in their order."""
    lane = ReplicaQueue(_Cached(0.0, 0.0)).open()
    lane.push([*prompts(0, 2, 1), *prompts(1_000, 2, 0), *prompts(2, 1, 1)])
    assert drawn(lane) == [1_000, 1_001, 0, 1, 2]
    assert lane.priority == LEAST_URGENT


def test_a_wave_waits_for_few_later_ones() -> None:
    """A cached wave overtakes `OVERTAKES` prompts of a lane at most. So an uncached prompt comes in the end."""
    lane = ReplicaQueue(_Cached(0.0, 1.0)).open()
    lane.push(prompts(0, OVERTAKES + 100))
    lane.push(prompts(1_000, 10))
    assert drawn(lane, most=103) == [*range(101), 1_000, 101]
    lane = lane.queue.open()
    lane.push(prompts(0, 1))
    keys: list[int] = []
    for number in range(100):
        lane.push(prompts(1_000 + 10 * number, 10))
        keys += drawn(lane, most=10)
    assert keys.index(0) == OVERTAKES - 1


def test_the_share_is_that_of_the_moment() -> None:
    """A query that was uncached when it came passes others once its prompts are cached, and falls back after."""
    cached = _Cached(0.0, 0.5)
    queue = ReplicaQueue(cached)
    cold, warm = queue.open(), queue.open()
    cold.push(prompts(0, 100))
    warm.push(prompts(1_000, 100))
    assert first(cold, warm) == 1
    cached.shares = [1.0, 0.0]
    assert drawn(cold, warm, most=33) == [*range(33)]
    cached.shares = [0.0, 1.0]
    assert drawn(cold, warm, most=33) == [*range(1_000, 1_033)]


def test_equals_come_as_they_wait() -> None:
    """Of lanes with nearly equal shares, the one that is named first comes first; a priority goes before a share."""
    queue = ReplicaQueue(_Cached(0.55, 0.5, 1.0))
    one, other, bulk = queue.open(), queue.open(), queue.open()
    one.push(prompts(0, 3))
    other.push(prompts(1_000, 3))
    bulk.push(prompts(2_000, 3, 1))
    assert [first(one, other, bulk), first(other, one), first(bulk, one)] == [0, 0, 1]


def test_another_thread_holds_the_lock() -> None:
    """The engine's thread never waits for the router: it then sees the shares of the last time."""
    lock, cached = threading.RLock(), _Cached(0.0, 1.0)
    queue = ReplicaQueue(cached, lock)
    cold, warm = queue.open(), queue.open()
    cold.push(prompts(0, 3))
    warm.push(prompts(1_000, 3))
    cached.shares = [1.0, 0.0]
    found: list[int] = []
    with lock:
        thread = threading.Thread(target=lambda: found.append(first(cold, warm)))
        thread.start()
        thread.join()
    assert [*found, first(cold, warm)] == [1, 0]


def test_prompts_taken_out_are_gone() -> None:
    """What another replica takes does not come out here, and no prompt of a lane that was closed."""
    queue = ReplicaQueue(_Cached(0.0, 0.0))
    lane, other = queue.open(), queue.open()
    lane.push(prompts(0, 4))
    other.push(prompts(1_000, 4))
    lane.take([one for one in lane.waiting() if one.key % 2])
    assert [prompt.key for prompt in lane.waiting()] == [0, 2]
    other.close()
    other.close()
    assert (len(queue), drawn(lane, other), lane.pop(), other.pop()) == (2, [0, 2], None, None)


def _served(lanes: Sequence[Lane], shares: Shares, rounds: int) -> list[Share]:
    """Let callers with these lanes take places while the oldest prompts are answered; return their places."""
    callers = [shares.open(lambda: None, lane) for lane in lanes]
    answered: list[Share] = []
    for _ in range(rounds):
        for caller in sorted(callers, key=lambda one: one.queue_number or 1 << 30):
            for _ in range(caller.take(16)):
                assert caller.lane is not None
                assert lanes[callers.index(caller)].pop() is not None
                answered.append(caller)
        answered[0].give_back(1)
        del answered[0]
    return callers


def test_a_cached_query_passes_another_at_the_engine() -> None:
    """Of one user's queries the cached one has more of the engine's places; the other one keeps half of its part."""
    queue = ReplicaQueue(_Cached(0.0, 1.0))
    cold, warm = queue.open("ann"), queue.open("ann")
    cold.push(prompts(0, 500))
    warm.push(prompts(1_000, 500))
    assert [caller.held for caller in _served([cold, warm], Shares(16), 200)] == [4, 11]


def test_a_cached_query_takes_no_place_of_another_user() -> None:
    """The queries of another user lose no place to a cached query."""
    queue = ReplicaQueue(_Cached(0.0, 1.0))
    cold, warm = queue.open("ann"), queue.open("bob")
    cold.push(prompts(0, 500))
    warm.push(prompts(1_000, 500))
    held = [caller.held for caller in _served([cold, warm], Shares(16), 200)]
    assert sorted(held) == [7, 8]


def test_users_have_equal_parts() -> None:
    """Three queries of one user have together what the query of another user has."""
    queue = ReplicaQueue(_Cached(0.0, 1.0, 1.0, 1.0))
    lanes = [queue.open("bob"), *(queue.open("ann") for _ in range(3))]
    for number, lane in enumerate(lanes):
        lane.push(prompts(1_000 * number, 500))
    bob, *ann = (caller.held for caller in _served(lanes, Shares(16), 400))
    assert abs(bob - sum(ann)) <= 1
    assert min(ann) >= 1


def test_an_urgent_query_comes_first() -> None:
    """A query with a lower priority number gets the next place, although another one has waited longer."""
    queue, shares = ReplicaQueue(_Cached(0.0, 1.0, 1.0)), Shares(4)
    lanes = [queue.open() for _ in range(3)]
    for number, lane in enumerate(lanes):
        lane.push(prompts(1_000 * number, 9, priority=int(number < 2)))
    first, second, urgent = (shares.open(lambda: None, lane) for lane in lanes)
    assert [caller.take(9) for caller in (first, second, urgent)] == [4, 0, 0]
    first.give_back(1)
    assert [caller.take(9) for caller in (first, second, urgent)] == [0, 0, 1]
    first.give_back(1)
    assert [caller.take(9) for caller in (first, second, urgent)] == [0, 1, 0]


def test_bulk_prompts_leave_room_while_urgent_ones_come() -> None:
    """For ten seconds after an urgent query, bulk prompts hold a quarter of the places, in equal parts."""
    now = [0.0]
    arrivals = Arrivals(lambda: now[0])
    queue, shares = ReplicaQueue(_Cached(0.0, 0.0), pace=Pace(arrivals)), Shares(16)
    lanes = [queue.open(), queue.open()]
    for number, lane in enumerate(lanes):
        lane.push(prompts(1_000 * number, 99, priority=1))
    callers = [shares.open(lambda: None, lane) for lane in lanes]
    arrivals.note(1)
    assert [lane.bound(16) for lane in lanes] == [None, None]
    arrivals.note(0)
    assert [lane.bound(16) for lane in lanes] == [4, 4]
    assert Counter(callers[n % 2].take(1) for n in range(12)) == {1: 4, 0: 8}
    assert [caller.held for caller in callers] == [2, 2]
    urgent = queue.open()
    urgent.push(prompts(0, 20))
    assert (urgent.bound(16), shares.open(lambda: None, urgent).take(20)) == (None, 12)
    now[0] = 11.0
    assert [lane.bound(16) for lane in lanes] == [None, None]


def test_long_answers_need_many_prompts() -> None:
    """Bulk prompts with long answers leave a quarter of the places; the engine always has two prompts if it can."""
    pace = Pace(Arrivals(lambda: 0.0))
    pace.arrivals.note(0)
    pace.sent(1, 200)
    pace.sent(2, 1)
    assert [pace.bound(priority, 128) for priority in range(3)] == [None, 96, 32]
    assert [pace.bound(2, places) for places in (1, 4)] == [1, 2]
