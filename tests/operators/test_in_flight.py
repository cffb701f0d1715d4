"""Prompts in flight: asked by one, waited for by others, and never left behind."""

import threading
import time

import numpy as np

from flightllm.operators.in_flight import InFlightRequests, Leases


def key(number: int) -> bytes:
    """Make a prompt key."""
    return number.to_bytes(16, "big")


def test_first_owns() -> None:
    """The first executor gets a key, the second its answer, and a third that comes later owns it anew."""
    in_flight = InFlightRequests()
    first, second = in_flight.open(), in_flight.open()
    assert first.acquire([key(1), key(2)]) == {key(1), key(2)}
    assert second.acquire([key(2), key(3)]) == {key(3)}
    assert (first.waiting, second.waiting) == (0, 1)
    assert second.take_answers() == {}
    first.complete(key(2), "text")
    assert second.waiting == 1
    assert second.take_answers() == {key(2): "text"}
    assert second.waiting == 0
    assert in_flight.open().acquire([key(2)]) == {key(2)}


def test_own_key_again() -> None:
    """A key leased twice by the same executor is its own, and it does not wait for itself."""
    leases = InFlightRequests().open()
    assert leases.acquire([key(1)]) == leases.acquire([key(1)]) == {key(1)}
    leases.complete(key(1), "x")
    assert leases.take_answers() == {}


def test_failure_is_not_shared() -> None:
    """Of those who wait for a prompt that failed, one asks it again and the others wait for that one."""
    in_flight = InFlightRequests()
    first, second, third = (in_flight.open() for _ in range(3))
    first.acquire([key(1)])
    assert not second.acquire([key(1)]) | third.acquire([key(1)])
    first.complete(key(1), None)
    assert second.take_answers() == third.take_answers() == {key(1): None}
    assert third.acquire([key(1)]) == {key(1)}
    assert second.acquire([key(1)]) == set()
    third.complete(key(1), "better")
    assert second.take_answers() == {key(1): "better"}


def test_closed_owner_lets_go() -> None:
    """An owner that ends in mid-air leaves its keys to those who wait; what it says later does not count."""
    in_flight = InFlightRequests()
    other = in_flight.open()
    with in_flight.open() as owner:
        owner.acquire([key(1), key(2)])
        assert other.acquire([key(1), key(2)]) == set()
        owner.complete(key(1), "x")
    assert other.take_answers() == {key(1): "x", key(2): None}
    assert other.acquire([key(2)]) == {key(2)}
    owner.complete(key(2), "late")
    owner.close()
    assert in_flight.open().acquire([key(2)]) == set()


def test_closed_waiter_is_forgotten() -> None:
    """A waiter that ends is told nothing more."""
    in_flight = InFlightRequests()
    owner, waiter = in_flight.open(), in_flight.open()
    owner.acquire([key(1), key(2)])
    waiter.acquire([key(1), key(2)])
    owner.complete(key(1), "x")
    waiter.close()
    owner.complete(key(2), "y")
    assert (waiter.waiting, waiter.take_answers()) == (0, {})


def test_dropped() -> None:
    """Keys that the cache knows are neither asked nor waited for; who waits for such an owner is to look there too."""
    in_flight = InFlightRequests()
    owner, waiter = in_flight.open(), in_flight.open()
    owner.acquire([key(1), key(2)])
    waiter.acquire([key(1), key(2)])
    owner.release([key(1)])
    waiter.release([key(2), key(3)])
    assert waiter.take_answers() == {key(1): None}
    owner.complete(key(2), "x")
    assert waiter.take_answers() == {}


def test_dropped_later() -> None:
    """A key waited for since an earlier `acquire` arrives, even if the cache has it by now."""
    in_flight = InFlightRequests()
    owner, waiter = in_flight.open(), in_flight.open()
    owner.acquire([key(1), key(2)])
    waiter.acquire([key(1), key(2)])
    owner.complete(key(1), "x")
    waiter.acquire([key(3)])
    waiter.release([key(1), key(2), key(3)])
    owner.complete(key(2), "y")
    assert waiter.take_answers() == {key(1): "x", key(2): "y"}


def test_stale_owner() -> None:
    """An owner that is not heard of keeps nobody waiting, and polling for cancellation is being heard of."""
    now = [0.0]
    in_flight = InFlightRequests(5.0, lambda: now[0])
    dead, alive, waiter = (in_flight.open() for _ in range(3))
    dead.acquire([key(1), key(2)])
    alive.acquire([key(3)])
    signal = alive.heartbeat(lambda: False)
    waiter.acquire([key(1), key(3)])
    for now[0] in (2.0, 4.0):
        assert not signal()
        assert waiter.take_answers() == {}
    now[0] = 6.0
    assert waiter.take_answers() == {key(1): None}
    assert waiter.acquire([key(1), key(2)]) == {key(1), key(2)}
    dead.complete(key(1), "late")
    dead.close()
    other = in_flight.open()
    assert other.acquire([key(1), key(2)]) == set()
    waiter.complete(key(1), "x")
    assert other.take_answers() == {key(1): "x"}
    assert waiter.take_answers() == {}


def test_taken_over_without_asking_first() -> None:
    """A waiter that acquires a stale owner's key again owns it, and hears of no answer of its own."""
    now = [0.0]
    in_flight = InFlightRequests(5.0, lambda: now[0])
    dead, waiter = in_flight.open(), in_flight.open()
    dead.acquire([key(1)])
    waiter.acquire([key(1)])
    now[0] = 6.0
    assert waiter.acquire([key(1)]) == {key(1)}
    assert waiter.waiting == 0
    waiter.complete(key(1), "x")
    assert waiter.take_answers() == {}


def test_busy_owner() -> None:
    """An owner inside its engine is waited for, however long it does not poll."""
    now = [0.0]
    in_flight = InFlightRequests(5.0, lambda: now[0])
    busy, waiter = in_flight.open(), in_flight.open()
    busy.busy = True
    busy.acquire([key(1)])
    waiter.acquire([key(1)])
    now[0] = 600.0
    assert waiter.take_answers() == {}
    busy.busy = False
    now[0] = 602.0
    assert waiter.take_answers() == {key(1): None}


def ask_all(
    in_flight: InFlightRequests, cache: dict[bytes, str], numbers: list[int], asked: list[int], fails: bool
) -> None:
    """Answer every number as an executor does: lease, look into the cache, send, wait for the others."""
    open_keys = {key(n) for n in numbers}
    with in_flight.open() as leases:

        def begin(keys: list[bytes]) -> None:
            leased = leases.acquire(keys)
            known = [k for k in keys if k in cache]
            leases.release(known)
            open_keys.difference_update(known)
            time.sleep(0)  # noqa: TID251 -- let another thread come between
            for k in leased.difference(known):
                asked.append(int.from_bytes(k, "big"))
                text = None if fails and len(asked) % 5 == 0 else "x"
                if text is not None:
                    cache[k] = text
                leases.complete(k, text)
                if text is not None:
                    open_keys.discard(k)
                else:
                    begin([k])

        for start in range(0, len(numbers), 16):
            begin([key(n) for n in numbers[start : start + 16]])
            take(leases, open_keys, begin)
        while open_keys:
            time.sleep(0.001)  # noqa: TID251 -- between two looks
            take(leases, open_keys, begin)


def take(leases: Leases, open_keys: set[bytes], begin: object) -> None:
    """Take the answers of others; begin again with keys that have no answer."""
    answers = leases.take_answers()
    open_keys.difference_update(k for k, text in answers.items() if text is not None)
    if again := [k for k, text in answers.items() if text is None]:
        begin(again)  # type: ignore[operator]


def test_threads() -> None:
    """Four executors of the same prompts, each in its own order, ask each once; those that fail until they do not."""
    for fails in (False, True):
        in_flight, cache = InFlightRequests(), dict[bytes, str]()
        asked: list[int] = []
        orders = [np.random.default_rng(seed).permutation(400).tolist() for seed in range(4)]
        threads = [threading.Thread(target=ask_all, args=(in_flight, cache, order, asked, fails)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert set(asked) == set(range(400))
        assert len(asked) == 400 or fails
        assert in_flight.open().acquire(cache) == set(cache)


def test_last_waiter_leaves_nothing() -> None:
    """Once the executors that await a prompt stop, its owner ends its lease as if they had never been there."""
    in_flight = InFlightRequests()
    owner, first, second = in_flight.open(), in_flight.open(), in_flight.open()
    owner.acquire([key(1)])
    assert first.acquire([key(1), key(1)]) == second.acquire([key(1)]) == set()
    first.close()
    second.release([key(1)])
    owner.complete(key(1), "x")
    assert first.take_answers() == second.take_answers() == {}
    assert first.acquire([key(1)]) == {key(1)}
