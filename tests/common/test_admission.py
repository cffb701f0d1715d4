"""Places are bounded, and those who wait for one take turns."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from flightllm.common.admission import AdmissionControl
from flightllm.common.fair_queue import FairQueue, Requester
from flightllm.errors import BusyError, CancelledError
from tests.servers import await_true


def _slots(size: int = 1, queue: int = 100, wait_seconds: float = 60.0) -> AdmissionControl:
    return AdmissionControl(size, queue=queue, wait_seconds=wait_seconds, poll_seconds=0.01)


@contextmanager
def _waiting(slots: AdmissionControl, asker: Requester, took: Callable[[], None]) -> Iterator[None]:
    """Wait for a place in a thread, from before the block on; `took` is called once it has one, which it gives back."""

    def wait() -> None:
        place = slots.take(asker, lambda: False)
        took()
        place.release()

    queued = slots.queued
    thread = threading.Thread(target=wait)
    thread.start()
    await_true(lambda: slots.queued != queued)
    yield
    thread.join(30)


def _order(*askers: tuple[str, str]) -> list[str]:
    """Return in which order those who ask in the given order get the one place; each is named by its session."""
    slots, order = _slots(), list[str]()
    place = slots.take(Requester("first", "first"), lambda: False)
    waiting = [_waiting(slots, Requester(*asker), partial(order.append, asker[1])) for asker in askers]
    for one in waiting:
        one.__enter__()
    place.release()
    for one in waiting:
        one.__exit__(None, None, None)
    assert (slots.running, slots.queued) == (0, 0)
    return order


def test_sessions_take_turns() -> None:
    """One session's many statements do not hold up another's one."""
    assert _order(*[("a", "bulk")] * 5, ("a", "one")) == ["bulk", "one", *["bulk"] * 4]


def test_users_take_turns() -> None:
    """A user's many sessions do not hold up another user, whose own sessions take turns among themselves."""
    bulk = [("bulk", f"s{number}") for number in range(4)]
    assert _order(*bulk, ("b", "x"), ("b", "x"), ("b", "y")) == ["s0", "x", "s1", "y", "s2", "x", "s3"]


def test_turns_forget_those_who_leave() -> None:
    """Who waits no longer is passed over, and leaves nothing behind."""
    turns: FairQueue[int] = FairQueue()
    a, b = Requester("a", "1"), Requester("b", "1")
    for number, asker in enumerate((a, a, b)):
        turns.add(asker, number)
    assert turns.remove(a, 0)
    assert not turns.remove(a, 0)
    assert (turns.take(), turns.take(), len(turns)) == (1, 2, 0)
    with pytest.raises(ValueError, match="empty"):
        turns.take()


def test_the_queue_is_bounded() -> None:
    """Beyond so many that wait, the next is refused at once; the error names the limit."""
    slots = _slots(queue=1)
    place = slots.take(Requester("a", "1"), lambda: False)
    with _waiting(slots, Requester("a", "1"), lambda: None):
        with pytest.raises(BusyError, match=r"1 statements wait.*\[limits\] queued_queries = 1 is the most: try again"):
            slots.take(Requester("b", "1"), lambda: False)
        place.release()
    assert slots.running == 0


def test_the_wait_is_bounded() -> None:
    """Who waited too long is refused and frees its turn, as does one whose client goes."""
    slots = _slots(wait_seconds=0.01)
    place = slots.take(Requester("a", "1"), lambda: False)
    with pytest.raises(BusyError, match=r"waited 0\.01 seconds.*\[limits\] concurrent_queries = 1"):
        slots.take(Requester("b", "1"), lambda: False)
    with pytest.raises(CancelledError):
        slots.take(Requester("b", "1"), lambda: True)
    place.release()
    place.release()
    assert (slots.running, slots.queued, slots.waits()) == (0, 0, (1, 0.0))


def test_waits_are_counted() -> None:
    """How long places were waited for adds up, and each knows its own."""
    slots = _slots()
    first = slots.take(Requester("a", "1"), lambda: False)
    waited: list[float] = []
    with _waiting(slots, Requester("a", "1"), lambda: waited.append(slots.waits()[1])):
        first.release()
    assert slots.waits()[0] == 2
    assert waited[0] > first.waited == 0.0


def test_all_are_cancelled() -> None:
    """A server that stops cancels whatever has a place."""
    slots, cancelled = _slots(2), list[int]()
    for number in range(2):
        slots.take(Requester("a", "1"), lambda: False, partial(cancelled.append, number))
    slots.cancel_all()
    assert sorted(cancelled) == [0, 1]


@pytest.mark.parametrize(("greedy", "modest"), [("a", "b"), ("a", "a")], ids=["users", "sessions"])
def test_who_has_fewer_places_comes_first(greedy: str, modest: str) -> None:
    """A place that comes free goes to who has none, though others that have some waited longer."""
    slots, order = _slots(3), list[str]()
    taken = [slots.take(Requester(greedy, "1"), lambda: False) for _ in range(3)]
    with _waiting(slots, Requester(greedy, "1"), partial(order.append, "greedy")):
        with _waiting(slots, Requester(modest, "2"), partial(order.append, "modest")):
            taken.pop().release()
        for place in taken:
            place.release()
    assert order == ["modest", "greedy"]
    assert slots.running == 0


@pytest.mark.parametrize(("greedy", "modest"), [("a", "b"), ("a", "a")], ids=["users", "sessions"])
def test_a_full_queue_refuses_who_has_most_in_it(greedy: str, modest: str) -> None:
    """Whoever fills the queue makes room for others, with what came last, until they have as many there."""
    slots, ends = _slots(queue=4), list[str]()
    place = slots.take(Requester(greedy, "1"), lambda: False)

    def wait(name: str, asker: Requester) -> None:
        try:
            slots.take(asker, lambda: False).release()
            ends.append(f"{name} got it")
        except BusyError as error:
            ends.append(f"{name} {error.limit}")

    def start(name: str, asker: Requester, ended: int, queued: int) -> threading.Thread:
        thread = threading.Thread(target=wait, args=(name, asker))
        thread.start()
        await_true(lambda: len(ends) >= ended and slots.queued >= queued)
        return thread

    threads = [start(f"greedy {n}", Requester(greedy, "1"), 0, n + 1) for n in range(4)]
    threads += [start(f"modest {n}", Requester(modest, "2"), n + 1, 4) for n in range(2)]
    assert ends == ["greedy 3 queued_queries", "greedy 2 queued_queries"]
    threads.append(start("modest 2", Requester(modest, "2"), 3, 4))
    assert ends[2] == "modest 2 queued_queries"
    place.release()
    for thread in threads:
        thread.join(30)
    assert sorted(ends[3:]) == ["greedy 0 got it", "greedy 1 got it", "modest 0 got it", "modest 1 got it"]
    assert (slots.running, slots.queued) == (0, 0)


@pytest.mark.parametrize(("greedy", "modest"), [("a", "b"), ("a", "a")], ids=["users", "sessions"])
def test_places_are_wanted(greedy: str, modest: str) -> None:
    """Of who has more, as many places are wanted as others wait for, until all have as many."""
    slots = _slots(3)  # so few that no place is kept for others
    places = [slots.take(Requester(greedy, "1"), lambda: False) for _ in range(3)]
    assert not any(place.wanted() for place in places)
    with _waiting(slots, Requester(greedy, "1"), lambda: None):
        assert not any(place.wanted() for place in places)
        with _waiting(slots, Requester(modest, "2"), lambda: None):
            assert [place.wanted() for place in places] == [True, False, False]
            assert places[0].wanted()
            places.pop(0).release()
        assert not any(place.wanted() for place in places)
        for place in places:
            place.release()
    assert slots.running == 0


def test_a_user_without_a_place_gets_in() -> None:
    """However many places a user takes, by any number of sessions, another user's statement starts at once."""
    slots = _slots(8)
    places = [slots.take(Requester("greedy", str(number)), lambda: False) for number in range(9)]
    with _waiting(slots, Requester("greedy", "more"), lambda: None):
        modest = slots.take(Requester("modest", "1"), lambda: False)
        assert (modest.waited, slots.running, slots.queued) == (0.0, 10, 1)
        with _waiting(slots, Requester("third", "1"), lambda: None):
            modest.release()  # the next place is for whoever has none
            await_true(lambda: slots.queued == 1)
        for place in places:
            place.release()
    await_true(lambda: slots.queued == 0)
    assert slots.running == 0


def test_a_paused_statement_holds_no_place() -> None:
    """A statement that pauses makes room, and waits for its turn before it goes on; a server that stops cancels it."""
    slots, cancelled = _slots(1), list[str]()
    first = slots.take(Requester("a", "1"), lambda: False, partial(cancelled.append, "first"))
    assert first.pause()
    assert first.pause()
    assert (slots.running, slots.paused) == (1, 1)
    second = slots.take(Requester("a", "2"), lambda: False)
    with pytest.raises(CancelledError):
        first.resume(lambda: True)
    slots.cancel_all()
    assert cancelled == ["first"]
    resumed = threading.Thread(target=first.resume, args=(lambda: False,))
    resumed.start()
    await_true(lambda: slots.queued == 1)
    second.release()
    resumed.join(30)
    assert (slots.running, slots.paused) == (1, 0)
    first.resume(lambda: False)
    first.release()
    assert (slots.running, slots.queued, slots.waits()[0]) == (0, 0, 2)


def test_paused_statements_are_bounded_by_user() -> None:
    """One user can have four paused statements for each place; the next one keeps its place."""
    slots = _slots(1)

    def taken(user: str) -> bool:
        return slots.take(Requester(user, "1"), lambda: False).pause()

    assert [taken("b"), taken("b")] == [True, True]
    assert [taken("a") for _ in range(5)] == [True, True, True, True, False]
    assert (slots.running, slots.paused) == (7, 6)


def test_a_released_statement_does_not_go_on() -> None:
    """A paused statement that was released while it waited for its turn takes no place."""
    slots = _slots(1)
    first = slots.take(Requester("a", "1"), lambda: False)
    assert first.pause()
    second = slots.take(Requester("a", "2"), lambda: False)
    resumed = threading.Thread(target=first.resume, args=(lambda: False,))
    resumed.start()
    await_true(lambda: slots.queued == 1)
    first.release()
    second.release()
    resumed.join(30)
    assert (slots.running, slots.paused, slots.queued) == (0, 0, 0)
