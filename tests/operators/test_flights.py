"""Prompts in flight: asked by one, waited for by others, and never left behind."""

import threading
import time

import numpy as np

from flightllm.operators.flights import Claims, Flights


def key(number: int) -> bytes:
    """Make a prompt key."""
    return number.to_bytes(16, "big")


def test_first_owns() -> None:
    """The first asker gets a key, the second its answer, and a third that comes later owns it anew."""
    flights = Flights()
    first, second = flights.open(), flights.open()
    assert first.claim([key(1), key(2)]) == {key(1), key(2)}
    assert second.claim([key(2), key(3)]) == {key(3)}
    assert (first.waiting, second.waiting) == (0, 1)
    assert second.landed() == {}
    first.answered(key(2), "text")
    assert second.waiting == 1
    assert second.landed() == {key(2): "text"}
    assert second.waiting == 0
    assert flights.open().claim([key(2)]) == {key(2)}


def test_own_key_again() -> None:
    """A key claimed twice by the same asker is its own, and it does not wait for itself."""
    claims = Flights().open()
    assert claims.claim([key(1)]) == claims.claim([key(1)]) == {key(1)}
    claims.answered(key(1), "x")
    assert claims.landed() == {}


def test_failure_is_not_shared() -> None:
    """Of those who wait for a prompt that failed, one asks it again and the others wait for that one."""
    flights = Flights()
    first, second, third = (flights.open() for _ in range(3))
    first.claim([key(1)])
    assert not second.claim([key(1)]) | third.claim([key(1)])
    first.answered(key(1), None)
    assert second.landed() == third.landed() == {key(1): None}
    assert third.claim([key(1)]) == {key(1)}
    assert second.claim([key(1)]) == set()
    third.answered(key(1), "better")
    assert second.landed() == {key(1): "better"}


def test_closed_owner_lets_go() -> None:
    """An owner that ends in mid-air leaves its keys to those who wait; what it says later does not count."""
    flights = Flights()
    other = flights.open()
    with flights.open() as owner:
        owner.claim([key(1), key(2)])
        assert other.claim([key(1), key(2)]) == set()
        owner.answered(key(1), "x")
    assert other.landed() == {key(1): "x", key(2): None}
    assert other.claim([key(2)]) == {key(2)}
    owner.answered(key(2), "late")
    owner.close()
    assert flights.open().claim([key(2)]) == set()


def test_closed_waiter_is_forgotten() -> None:
    """A waiter that ends is told nothing more."""
    flights = Flights()
    owner, waiter = flights.open(), flights.open()
    owner.claim([key(1), key(2)])
    waiter.claim([key(1), key(2)])
    owner.answered(key(1), "x")
    waiter.close()
    owner.answered(key(2), "y")
    assert (waiter.waiting, waiter.landed()) == (0, {})


def test_dropped() -> None:
    """Keys that the cache knows are neither asked nor waited for; who waits for such an owner is to look there too."""
    flights = Flights()
    owner, waiter = flights.open(), flights.open()
    owner.claim([key(1), key(2)])
    waiter.claim([key(1), key(2)])
    owner.drop([key(1)])
    waiter.drop([key(2), key(3)])
    assert waiter.landed() == {key(1): None}
    owner.answered(key(2), "x")
    assert waiter.landed() == {}


def test_dropped_later() -> None:
    """A key waited for since an earlier claim lands, although the cache, asked for other keys too, knew it by then."""
    flights = Flights()
    owner, waiter = flights.open(), flights.open()
    owner.claim([key(1), key(2)])
    waiter.claim([key(1), key(2)])
    owner.answered(key(1), "x")
    waiter.claim([key(3)])
    waiter.drop([key(1), key(2), key(3)])
    owner.answered(key(2), "y")
    assert waiter.landed() == {key(1): "x", key(2): "y"}


def test_stale_owner() -> None:
    """An owner that is not heard of keeps nobody waiting, and polling for cancellation is being heard of."""
    now = [0.0]
    flights = Flights(5.0, lambda: now[0])
    dead, alive, waiter = (flights.open() for _ in range(3))
    dead.claim([key(1), key(2)])
    alive.claim([key(3)])
    watched = alive.watched(lambda: False)
    waiter.claim([key(1), key(3)])
    for now[0] in (2.0, 4.0):
        assert not watched()
        assert waiter.landed() == {}
    now[0] = 6.0
    assert waiter.landed() == {key(1): None}
    assert waiter.claim([key(1), key(2)]) == {key(1), key(2)}
    dead.answered(key(1), "late")
    dead.close()
    other = flights.open()
    assert other.claim([key(1), key(2)]) == set()
    waiter.answered(key(1), "x")
    assert other.landed() == {key(1): "x"}
    assert waiter.landed() == {}


def test_taken_over_without_asking_first() -> None:
    """A waiter that claims a stale owner's key again owns it, and hears of no answer of its own."""
    now = [0.0]
    flights = Flights(5.0, lambda: now[0])
    dead, waiter = flights.open(), flights.open()
    dead.claim([key(1)])
    waiter.claim([key(1)])
    now[0] = 6.0
    assert waiter.claim([key(1)]) == {key(1)}
    assert waiter.waiting == 0
    waiter.answered(key(1), "x")
    assert waiter.landed() == {}


def test_busy_owner() -> None:
    """An owner inside its engine is waited for, however long it does not poll."""
    now = [0.0]
    flights = Flights(5.0, lambda: now[0])
    busy, waiter = flights.open(), flights.open()
    busy.busy = True
    busy.claim([key(1)])
    waiter.claim([key(1)])
    now[0] = 600.0
    assert waiter.landed() == {}
    busy.busy = False
    now[0] = 602.0
    assert waiter.landed() == {key(1): None}


def ask_all(flights: Flights, cache: dict[bytes, str], numbers: list[int], asked: list[int], fails: bool) -> None:
    """Answer every number as an asker does: claim, look into the cache, ask, wait for the others."""
    open_keys = {key(n) for n in numbers}
    with flights.open() as claims:

        def begin(keys: list[bytes]) -> None:
            mine = claims.claim(keys)
            known = [k for k in keys if k in cache]
            claims.drop(known)
            open_keys.difference_update(known)
            time.sleep(0)  # noqa: TID251 -- let another thread come between
            for k in mine.difference(known):
                asked.append(int.from_bytes(k, "big"))
                text = None if fails and len(asked) % 5 == 0 else "x"
                if text is not None:
                    cache[k] = text
                claims.answered(k, text)
                if text is not None:
                    open_keys.discard(k)
                else:
                    begin([k])

        for start in range(0, len(numbers), 16):
            begin([key(n) for n in numbers[start : start + 16]])
            take(claims, open_keys, begin)
        while open_keys:
            time.sleep(0.001)  # noqa: TID251 -- between two looks
            take(claims, open_keys, begin)


def take(claims: Claims, open_keys: set[bytes], begin: object) -> None:
    """Take what landed; begin again with what did not."""
    landed = claims.landed()
    open_keys.difference_update(k for k, text in landed.items() if text is not None)
    if again := [k for k, text in landed.items() if text is None]:
        begin(again)  # type: ignore[operator]


def test_threads() -> None:
    """Four askers of the same prompts, each in its own order, ask each once; those that fail until they do not."""
    for fails in (False, True):
        flights, cache = Flights(), dict[bytes, str]()
        asked: list[int] = []
        orders = [np.random.default_rng(seed).permutation(400).tolist() for seed in range(4)]
        threads = [threading.Thread(target=ask_all, args=(flights, cache, order, asked, fails)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert set(asked) == set(range(400))
        assert len(asked) == 400 or fails
        assert flights.open().claim(cache) == set(cache)
