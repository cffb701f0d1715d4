"""Statements are planned in turns over users, and a turn that is kept too long passes on."""

import threading
from functools import partial

import pytest

from flightllm.common.fair_queue import Requester
from flightllm.common.stopping import text_is_read
from flightllm.errors import CancelledError, SqlError
from flightllm.flight.planning_turns import PlanningTurns, planned_within
from tests.servers import await_true

_ANN, _BOB = Requester("ann", "1"), Requester("bob", "2")
_MOST_SECONDS = 30.0


def _stays() -> bool:
    return False


def _waits(turns: PlanningTurns, count: int) -> bool:
    return turns.queued == count


def test_a_user_with_one_statement_passes_a_crowd() -> None:
    """Eight statements of one user wait; the statement of another user, sent last, is among the first planned."""
    turns, order = PlanningTurns(1, _MOST_SECONDS), list[str]()
    held = turns.turn(_ANN, _stays)

    def plan(asker: Requester) -> None:
        turn = turns.turn(asker, _stays)
        order.append(asker.user)
        turn.release()

    threads = []
    for number, asker in enumerate([*[_ANN] * 8, _BOB], 1):
        threads.append(threading.Thread(target=plan, args=(asker,)))
        threads[-1].start()
        await_true(partial(_waits, turns, number))
    held.release()
    for thread in threads:
        thread.join(_MOST_SECONDS)
    assert len(order) == 9
    assert order.index("bob") < 2


def test_a_turn_that_is_kept_passes_on() -> None:
    """A statement whose planning never ends, for example because it waits for a model, keeps nobody out."""
    turns = PlanningTurns(1)
    turns.turn(_ANN, _stays)
    turns.turn(_BOB, _stays).release()


def test_a_client_that_leaves_stops_waiting() -> None:
    """The wait for a turn ends with the client, and the statement behind it has its turn."""
    turns = PlanningTurns(1, _MOST_SECONDS)
    held = turns.turn(_ANN, _stays)
    with pytest.raises(CancelledError, match="cancelled"):
        turns.turn(Requester("ann", "3"), lambda: True)
    held.release()
    turns.turn(_BOB, _stays).release()


def test_the_turn_ends_once_the_statement_is_planned() -> None:
    """What follows the planning, such as a change that waits for a table, does not hold the turn."""
    turns, ended = PlanningTurns(1, _MOST_SECONDS), threading.Event()
    turn = turns.turn(_ANN, _stays)

    def work() -> str:
        text_is_read()
        turns.turn(_BOB, _stays).release()
        ended.set()
        return "done"

    assert planned_within(turn, work)() == "done"
    assert ended.is_set()


def test_the_turn_of_a_failed_statement_ends() -> None:
    """An error in planning gives the turn back."""
    turns = PlanningTurns(1, _MOST_SECONDS)

    def fails() -> None:
        raise SqlError("no such table")

    with pytest.raises(SqlError):
        planned_within(turns.turn(_ANN, _stays), fails)()
    turns.turn(_BOB, _stays).release()
