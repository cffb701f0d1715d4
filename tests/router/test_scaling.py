"""The number of replicas: within its bounds, up under a backlog, down when some are not needed, else steady."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.router.scaling import Change, ReplicaLoad, Scaling, Seen, decide

IDLE = ReplicaLoad(0.0, 0)
FOUR = Scaling(1, 4, backlog_seconds=10.0, upscale_delay_s=5.0, downscale_delay_s=60.0)
LOADS = st.builds(ReplicaLoad, st.floats(0, 1e4), st.integers(0, 1_000), st.booleans())


def watch(
    scaling: Scaling, load: Callable[[int, int], ReplicaLoad], replicas: int, seconds: int
) -> list[tuple[int, dict[int, ReplicaLoad]]]:
    """Return the time and the replicas after each change; `load` tells a replica's, by its place and their number."""
    numbers, seen, last = list(range(replicas)), None, replicas
    changes: list[tuple[int, dict[int, ReplicaLoad]]] = []
    for now in range(seconds):
        loads = {number: load(place, len(numbers)) for place, number in enumerate(numbers)}
        change, seen = decide(scaling, loads, float(now), seen)
        numbers += range(last, last + change.add)
        last += change.add
        if change.remove is not None:
            numbers.remove(change.remove)
        if change != Change():
            changes.append((now, dict.fromkeys(numbers, IDLE)))
    return changes


@pytest.mark.slow
@given(
    st.integers(1, 5),
    st.integers(0, 5),
    st.lists(st.tuples(st.floats(0, 100), st.lists(LOADS, min_size=12, max_size=12)), max_size=40),
    st.integers(0, 12),
)
def test_bounds(least: int, more: int, looks: list[tuple[float, list[ReplicaLoad]]], replicas: int) -> None:
    """Whatever the load does, the number moves towards the bounds from outside, and never leaves them."""
    scaling = Scaling(least, least + more, 1.0, 5.0, 50.0)
    numbers, seen, now, last = list(range(replicas)), None, 0.0, replicas
    for passed, drawn in looks:
        now += passed
        before = len(numbers)
        loads = {number: drawn[number % len(drawn)] for number in numbers}
        change, seen = decide(scaling, loads, now, seen)
        assert change.remove is None or change.remove in numbers
        assert not (change.add and change.remove is not None)
        numbers = [number for number in numbers if number != change.remove] + list(range(last, last + change.add))
        last += change.add
        low, high = min(before, scaling.min_replicas), max(before, scaling.max_replicas)
        assert low <= len(numbers) <= high
        if before < scaling.min_replicas:
            assert len(numbers) == scaling.min_replicas


@pytest.mark.slow
@given(st.floats(0, 500), st.integers(1, 12), st.integers(1, 12), st.floats(0.5, 50))
def test_steady_at_constant_load(work: float, busy: int, replicas: int, backlog: float) -> None:
    """Under a constant load, spread over any of the replicas, the number settles and turns back once at most."""
    scaling = Scaling(1, 12, backlog, 5.0, 20.0)

    def load(place: int, count: int) -> ReplicaLoad:
        share = min(busy, count)
        return ReplicaLoad(work / share, 1 + int(work)) if place < share and work else IDLE

    changes = watch(scaling, load, replicas, 1_200)
    assert all(when < 900 for when, _ in changes)
    sizes = [replicas, *(len(numbers) for _, numbers in changes)]
    steps = [after > before for before, after in pairwise(sizes)]
    assert sum(one != other for one, other in pairwise(steps)) <= 1


@pytest.mark.parametrize("every", [40, 55])
def test_steady_at_bursts(every: int) -> None:
    """Bursts that come again before a replica could go bring in what they need once, and let nothing go."""
    moment = iter(range(100_000))

    def load(_: int, count: int) -> ReplicaLoad:
        burst = next(moment) // count % every < 8
        return ReplicaLoad(16.0 / count, 9) if burst else IDLE

    changes = watch(FOUR, load, 1, 1_200)
    assert [len(numbers) for _, numbers in changes] == [2]


def test_out_after_a_while() -> None:
    """A backlog must last; then as many are added as it takes, at most as many as there are."""
    loads = {0: ReplicaLoad(35.0, 100)}
    change, seen = decide(FOUR, loads, 0.0, None)
    assert change == Change()
    change, seen = decide(FOUR, loads, 4.0, seen)
    assert change == Change()
    change, seen = decide(FOUR, loads, 5.0, seen)
    assert change == Change(add=1)
    change, seen = decide(FOUR, {0: ReplicaLoad(35.0, 100), 1: ReplicaLoad(0.0, 0, up=False)}, 20.0, seen)
    assert change == Change(), "the new one is still starting"
    for now in (21.0, 26.0):
        change, seen = decide(FOUR, {0: ReplicaLoad(35.0, 100), 1: IDLE}, now, seen)
    assert change == Change(add=2)


def test_a_short_backlog_adds_none() -> None:
    """A backlog that went away in between begins anew."""
    seen: Seen | None = None
    for now, seconds in ((0.0, 50.0), (4.0, 50.0), (5.0, 1.0), (6.0, 50.0), (10.0, 50.0)):
        change, seen = decide(FOUR, {0: ReplicaLoad(seconds, 9)}, now, seen)
        assert change == Change()


def test_in_when_idle() -> None:
    """A replica that had nothing for so long goes, the latest first; one that had a prompt lately stays."""
    seen: Seen | None = None
    for now in range(0, 60, 10):
        busy = {0: ReplicaLoad(2.0, 9), 1: ReplicaLoad(1.0, int(now == 20)), 2: IDLE, 3: IDLE}
        change, seen = decide(FOUR, busy, float(now), seen)
        assert change == Change()
    change, seen = decide(FOUR, busy, 60.0, seen)
    assert change == Change(remove=3)


def test_in_where_all_have_little() -> None:
    """A light load that is spread over all replicas does not keep them all."""
    changes = watch(FOUR, lambda place, _: ReplicaLoad(0.1, 1) if place == 0 else IDLE, 4, 400)
    assert [len(numbers) for _, numbers in changes] == [3, 2, 1]
    turns = iter(range(10_000))
    rounds = watch(FOUR, lambda _, __: ReplicaLoad(0.1, 1) if next(turns) % 11 == 0 else IDLE, 4, 400)
    assert [len(numbers) for _, numbers in rounds] == [3, 2, 1]


def test_not_in_under_load() -> None:
    """Where the others would have a backlog, none goes; nor where all are at work."""
    assert watch(FOUR, lambda place, _: ReplicaLoad(18.0, 9) if place == 0 else IDLE, 2, 400) == []
    assert watch(FOUR, lambda _, __: ReplicaLoad(1.0, 9), 3, 400) == []


def test_what_is_down_goes_first() -> None:
    """A replica that found no place on the cluster is the first to go."""
    seen: Seen | None = None
    for now in (0.0, 60.0):
        change, seen = decide(FOUR, {0: IDLE, 1: ReplicaLoad(0.0, 0, up=False), 2: IDLE}, now, seen)
    assert change == Change(remove=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_replicas": 0}, "min_replicas: expected at least 1"),
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas: expected at least min_replicas = 3, got 2"),
        ({"backlog_seconds": 0.0}, "backlog_seconds: expected a number above 0"),
        ({"downscale_delay_s": -1.0}, "downscale_delay_s: expected a number from 0 on, got -1"),
        ({"upscale_delay_s": float("nan")}, "upscale_delay_s: expected a number from 0 on"),
    ],
)
def test_mistakes(given: dict[str, float], message: str) -> None:
    """Bounds and delays that make no sense are refused by name."""
    with pytest.raises(ValueError, match=message):
        Scaling(**given)  # type: ignore[arg-type]
