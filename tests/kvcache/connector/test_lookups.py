"""What the store is asked, and when it is left alone."""

from collections.abc import Iterator
from itertools import count

import pytest

from flightllm.kvcache.connector.lookups import Lookups
from tests.kvcache.connector.stores import MemoryStore
from tests.servers import await_true

KEYS = ("a", "b")


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store that holds one of two chunks in the codec, the other in another."""
    store = MemoryStore()
    store.held = {("a", "raw"): b"x", ("b", "int8"): b"x"}
    yield store
    store.gate.set()


@pytest.fixture
def lookups(store: MemoryStore, clock: Clock) -> Lookups:
    """Return lookups in it."""
    return Lookups(store, ["raw"], 1.0, 5.0, clock)


def told(lookups: Lookups, keys: tuple[str, ...] = KEYS) -> frozenset[str]:
    """Return an answer once it is there."""
    await_true(lambda: lookups.held(keys) is not None)
    held = lookups.held(keys)
    assert held is not None
    return held


def test_one_question_for_many(lookups: Lookups, store: MemoryStore, clock: Clock) -> None:
    """What is held in another codec does not count; the same question is asked once, and again after a while."""
    assert lookups.held(KEYS) is None
    assert told(lookups) == lookups.seen(KEYS) == {"a"}
    assert store.calls == ["lookup"]
    clock.now += 3
    assert lookups.seen(KEYS) == {"a"}
    assert told(lookups) == {"a"}
    assert store.calls == ["lookup"] * 2


def test_dead_store(lookups: Lookups, store: MemoryStore, clock: Clock) -> None:
    """A store that fails is not asked for a while, whatever the question; after that it is."""
    store.down = True
    assert told(lookups) == frozenset()
    assert [lookups.held((str(number),)) for number in range(50)] == [frozenset()] * 50
    assert store.calls == ["lookup"]
    store.down = False
    clock.now += 6
    assert told(lookups) == {"a"}


def test_silent_store(lookups: Lookups, store: MemoryStore, clock: Clock) -> None:
    """A store that does not answer in time is left alone too, and an answer that comes late is taken."""
    store.gate.clear()
    assert lookups.held(KEYS) is None
    clock.now += 0.9
    assert lookups.held(KEYS) is None
    clock.now += 0.2
    assert lookups.held(KEYS) == lookups.held(("c",)) == frozenset()
    store.gate.set()
    clock.now += 6
    assert told(lookups) == {"a"}


def test_chunk_that_does_not_load(lookups: Lookups, clock: Clock) -> None:
    """A chunk that could not be loaded is taken as not held for a minute, though the store says otherwise."""
    assert told(lookups) == {"a"}
    lookups.failed(["a"])
    assert told(lookups) == lookups.seen(KEYS) == frozenset()
    clock.now += 10
    assert told(lookups) == frozenset()
    clock.now += 61
    assert told(lookups) == {"a"}


def test_answers_are_forgotten(lookups: Lookups) -> None:
    """However many prompts there are, the memory for answers has an end."""
    for number in count():
        lookups.held((str(number),))
        if number > 5_000:
            break
    assert len(lookups._answers) <= 4_096
