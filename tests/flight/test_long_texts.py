"""Long texts are read one after the other, fairly by user, and while others rest nobody reads."""

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from flightllm.common.fair_queue import Requester
from flightllm.common.limits import TimeLimit
from flightllm.common.stopping import check_wanted, stopped_if, text_is_read
from flightllm.errors import BusyError, CancelledError, StatementTimeoutError
from flightllm.flight.limits import FlightLimits
from flightllm.flight.long_texts import LONG_BYTES, LongTexts, Turn, is_long
from flightllm.flight.server import FlightSqlServer
from tests.servers import ask, await_true, cursor_of

_NEVER = TimeLimit().start()
_ANN, _BOB = Requester("ann", "1"), Requester("bob", "2")
LIMITS = replace(FlightLimits(), queue_seconds=30.0, poll_seconds=0.01)


@pytest.fixture
def texts() -> LongTexts:
    """The turns of a server that is idle."""
    return LongTexts(LIMITS)


def _turn(texts: LongTexts, asker: Requester) -> Turn:
    return texts.turn(asker, lambda: False, _NEVER)


def _waits(texts: LongTexts, count: int) -> bool:
    return texts.queued == count


def test_which_texts_are_long() -> None:
    """Short texts never wait; plans count by their bytes."""
    assert [is_long(text) for text in (None, "a" * LONG_BYTES, "a" * (LONG_BYTES + 1), b"a" * 99_999)] == [
        *(False, False, True, True)
    ]


def test_one_at_a_time_and_fairly(texts: LongTexts) -> None:
    """A user with one text is served before the further texts of a user with many."""
    order: list[str] = []
    first = _turn(texts, _ANN)

    def read(asker: Requester) -> None:
        turn = _turn(texts, asker)
        order.append(asker.user)
        assert texts.reading == 1
        turn.end()

    threads = []
    for number, asker in enumerate([*[_ANN] * 3, _BOB], 1):
        threads.append(threading.Thread(target=read, args=(asker,)))
        threads[-1].start()
        await_true(partial(_waits, texts, number))
    first.end()
    for thread in threads:
        thread.join(30)
    assert order.index("bob") < 2
    assert len(order) == 4
    assert texts.reading == texts.queued == 0


def test_deadline_and_departure_end_the_wait(texts: LongTexts) -> None:
    """The statement's time limit and its client end the wait for a turn, and the place in the queue is free again."""
    held = _turn(texts, _ANN)
    with pytest.raises(StatementTimeoutError):
        texts.turn(_BOB, lambda: False, TimeLimit(0.0).start())
    with pytest.raises(CancelledError):
        texts.turn(_BOB, lambda: True, _NEVER)
    assert texts.queued == 0
    held.end()
    _turn(texts, _BOB).end()


def test_refused_with_advice() -> None:
    """A text that waited too long is refused, and the error says what to send instead."""
    texts = LongTexts(replace(LIMITS, queue_seconds=0.0))
    held = _turn(texts, _ANN)
    with pytest.raises(BusyError, match="send the values as parameters or upload them as a table"):
        _turn(texts, _BOB)
    held.end()


def test_a_turn_ends_when_the_text_is_read(texts: LongTexts) -> None:
    """The turn ends before the statement runs; meanwhile no full collection of garbage stops all threads."""
    seen: list[tuple[bool, int]] = []

    def work() -> str:
        seen.append((gc.isenabled(), texts.reading))
        text_is_read()
        seen.append((gc.isenabled(), texts.reading))
        return "done"

    assert _turn(texts, _ANN).during(work)() == "done"
    assert seen == [(False, 1), (True, 0)]


def test_a_failure_ends_the_turn(texts: LongTexts) -> None:
    """Work that fails ends its turn; a turn without work ends by `end_unused`, and one with work does not."""

    def fail() -> None:
        turn.end_unused()
        assert texts.reading == 1
        with stopped_if(lambda: True):
            check_wanted()

    turn = _turn(texts, _ANN)
    with pytest.raises(CancelledError):
        turn.during(fail)()
    assert (texts.reading, gc.isenabled()) == (0, True)
    unused = _turn(texts, _ANN)
    unused.end_unused()
    assert texts.reading == 0


@pytest.fixture
def held(server: FlightSqlServer) -> Iterator[Turn]:
    """The turn of a server, which nobody else gets meanwhile."""
    turn = _turn(server._core.long_texts, _BOB)
    yield turn
    turn.end()


def test_short_texts_pass_long_ones(server: FlightSqlServer, held: Turn) -> None:
    """While a long text waits, it holds no place of the statements, and short ones run; then the long one runs too."""
    core, rows = server._core, list[object]()
    sql = f"SELECT 5 IN ({', '.join(map(str, range(6_000)))}) AS found"

    def read() -> None:
        with cursor_of(server) as cursor:
            rows.extend(ask(cursor, sql))

    thread = threading.Thread(target=read)
    thread.start()
    await_true(lambda: core.long_texts.queued == 1)
    assert core.slots.running == 0
    with cursor_of(server) as cursor:
        assert ask(cursor, "SELECT 1") == [(1,)]
    held.end()
    thread.join(60)
    assert rows == [(True,)]
    assert core.long_texts.reading == 0
