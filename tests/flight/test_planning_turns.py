"""Statements are planned in turns over users, and a turn that is kept too long passes on."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from flightllm.common.fair_queue import Requester
from flightllm.common.stopping import text_is_read
from flightllm.common.thread_clock import ThreadClock
from flightllm.errors import CancelledError, SqlError
from flightllm.flight import planning_turns
from flightllm.flight.planning_turns import PlanningTurns
from tests.servers import await_true

_ANN, _BOB, _EVE, _DAN = (Requester(name, "1") for name in ("ann", "bob", "eve", "dan"))
_ANN_AGAIN = Requester("ann", "2")
_MOST_SECONDS = 30.0
_MANY = 16
_NO_END = 1e6
"""Seconds of a lease that lasts longer than any test."""


def _stays() -> bool:
    return False


def _leaves_later() -> Callable[[], bool]:
    """Return a client that leaves after a while, so that a turn which never comes is a failure and no hang."""
    until = time.monotonic() + _MOST_SECONDS
    return lambda: time.monotonic() > until


def _waits(turns: PlanningTurns, count: int) -> bool:
    return turns.queued == count


def test_a_user_with_one_statement_passes_a_crowd() -> None:
    """Eight statements of one user wait; the statement of another user, sent last, is among the first planned."""
    turns, order = PlanningTurns(1, _NO_END), list[str]()
    held = [turns.turn(_ANN, _stays), turns.turn(_EVE, _stays)]

    def plan(asker: Requester) -> None:
        turn = turns.turn(asker, _leaves_later())
        order.append(asker.user)
        await_true(lambda: "bob" in order)  # otherwise later turns can overtake a thread that has its turn already
        turn.end()

    threads = []
    for number, asker in enumerate([*[_ANN] * 8, _BOB], 1):
        threads.append(threading.Thread(target=plan, args=(asker,)))
        threads[-1].start()
        await_true(partial(_waits, turns, number))
    for turn in held:
        turn.end()
    for thread in threads:
        thread.join(_MOST_SECONDS)
    assert len(order) == 9
    assert order.index("bob") <= 2


def test_slow_plannings_of_one_user_keep_nobody_out() -> None:
    """A user without a turn gets one at once where another user has all ordinary turns; that user itself waits."""
    turns = PlanningTurns(1, _NO_END)
    turns.turn(_ANN, _stays)
    turns.turn(_BOB, _leaves_later())
    with pytest.raises(CancelledError):
        turns.turn(_ANN_AGAIN, lambda: True)


def test_a_turn_that_is_kept_passes_on() -> None:
    """A statement whose planning never ends, for example because it waits for a model, keeps nobody out."""
    turns = PlanningTurns(1, 0.01)
    for asker in (_ANN, _BOB, _EVE, _DAN):
        turns.turn(asker, _leaves_later())


class _Busy(ThreadClock):
    """The clock of a thread that always has a core."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def seconds(self) -> float:
        self.looks += 1
        return self.looks * _NO_END


@pytest.mark.parametrize(("looks", "passes_on"), [(3, False), (50, True)])
def test_a_statement_that_computes(looks: int, monkeypatch: pytest.MonkeyPatch, *, passes_on: bool) -> None:
    """It keeps its turn, for otherwise all of a crowd would compute at once; but it does not keep the turn forever."""
    monkeypatch.setattr(planning_turns, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(planning_turns, "ThreadClock", _Busy)
    monkeypatch.setattr(planning_turns, "time", SimpleNamespace(monotonic=count().__next__))  # each look is a lease
    turns = PlanningTurns(1, 1)

    def work() -> bool:
        looked = iter(range(looks))
        with suppress(CancelledError):
            turns.turn(_ANN_AGAIN, lambda: next(looked, None) is None)
            return True
        return False

    assert turns.turn(_ANN, _stays).during(work)() == passes_on


class _Shared(_Busy):
    """The clock of one of many threads that share one core, for leases of one second."""

    def seconds(self) -> float:
        self.looks += 1
        return self.looks / _MANY


def test_many_statements_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has little of the interpreter, and keeps its turn all the same."""
    monkeypatch.setattr(planning_turns, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(planning_turns, "ThreadClock", _Shared)
    monkeypatch.setattr(planning_turns, "time", SimpleNamespace(monotonic=lambda: 0))
    turns = PlanningTurns(_MANY, 1)
    held = [turns.turn(_ANN, _stays) for _ in range(_MANY)]
    monkeypatch.setattr(planning_turns, "time", SimpleNamespace(monotonic=count(2).__next__))
    looked = iter(range(4))

    def work() -> None:
        with pytest.raises(CancelledError):
            turns.turn(_ANN, lambda: next(looked, None) is None)

    for turn in held:
        work = turn.during(work)
    work()


def test_a_client_that_leaves_its_planning() -> None:
    """The turn goes on with the planning, so that a client that asks and leaves again has no more turns than others."""
    turns = PlanningTurns(1, _NO_END)
    turn = turns.turn(_ANN, _stays)

    def work() -> None:
        turn.end_unused()
        with pytest.raises(CancelledError):
            turns.turn(_ANN_AGAIN, lambda: True)

    turn.during(work)()
    turns.turn(_ANN_AGAIN, _leaves_later()).end_unused()
    turns.turn(_ANN, _leaves_later())


def test_a_client_that_leaves_stops_waiting() -> None:
    """The wait for a turn ends with the client, and the statement behind it has its turn."""
    turns = PlanningTurns(1, _NO_END)
    held = turns.turn(_ANN, _stays)
    with pytest.raises(CancelledError, match="cancelled"):
        turns.turn(_ANN_AGAIN, lambda: True)
    assert turns.queued == 0
    held.end()
    turns.turn(_ANN_AGAIN, _leaves_later())


def test_the_turn_ends_once_the_statement_is_planned() -> None:
    """What follows the planning, such as a change that waits for a table, does not hold the turn."""
    turns = PlanningTurns(1, _NO_END)

    def work() -> str:
        text_is_read()
        turns.turn(_ANN_AGAIN, _leaves_later()).end()
        return "done"

    assert turns.turn(_ANN, _stays).during(work)() == "done"


def test_the_turn_of_a_failed_statement_ends() -> None:
    """An error in planning gives the turn back."""
    turns = PlanningTurns(1, _NO_END)

    def fails() -> None:
        raise SqlError("no such table")

    with pytest.raises(SqlError):
        turns.turn(_ANN, _stays).during(fails)()
    turns.turn(_ANN_AGAIN, _leaves_later())
