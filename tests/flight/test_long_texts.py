"""Long texts are read one after the other, fairly by user, and while others rest nobody reads."""

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from pyarrow import flight

from flightllm.catalog.managed import rows_of
from flightllm.common.admission import AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import TimeLimit
from flightllm.common.stopping import check_wanted, stopped_if, text_is_read
from flightllm.errors import BusyError, CancelledError, StatementTimeoutError
from flightllm.flight.limits import FlightLimits
from flightllm.flight.long_texts import LONG_BYTES, LongTexts, Turn, is_long
from flightllm.flight.messages import pack, sql_message
from flightllm.flight.server import FlightSqlServer
from tests.servers import ask, await_true, cursor_of, serving

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
    with pytest.raises(BusyError, match="read first for 0 seconds: move values from the text to parameters"):
        _turn(texts, _BOB)
    with pytest.raises(BusyError, match=r"this plan has more than 20,000 bytes, and .*upload its values"):
        texts.turn(_BOB, lambda: False, _NEVER, plan=True)
    full = LongTexts(replace(LIMITS, queued_queries=0))
    other = _turn(full, _ANN)
    with pytest.raises(BusyError, match="0 long texts wait to be read"):
        _turn(full, _BOB)
    other.end()
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


def test_work_that_begins_too_late_reads_nothing(texts: LongTexts) -> None:
    """Work whose turn has ended fails when it begins, and the collection of garbage stays on for all later turns."""
    late = _turn(texts, _ANN)
    late.end_unused()
    ran: list[bool] = []
    with pytest.raises(CancelledError):
        late.during(lambda: ran.append(gc.isenabled()))()
    assert (ran, gc.isenabled()) == ([], True)
    _turn(texts, _ANN).during(lambda: ran.append(gc.isenabled()))()
    assert (ran, gc.isenabled()) == ([False], True)


def test_no_rest_without_others(texts: LongTexts) -> None:
    """A text that is alone does not rest; it would wait until the deadline here."""
    texts._rest(3_600.0)
    texts.turn(_ANN, lambda: False, _NEVER, others=lambda: False).end()
    with pytest.raises(StatementTimeoutError):
        texts.turn(_ANN, lambda: False, TimeLimit(0.1).start(), others=lambda: True)
    assert texts.reading == 0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightSqlServer]:
    """A server over the real database."""
    with serving(tmp_path_factory.mktemp("real")) as server:
        yield server


def _long(sql: str) -> str:
    return f"{sql} /* {'x' * LONG_BYTES} */"


def _descriptor(sql: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(pack(sql_message("CommandStatementQuery", query=sql)))


def _runs(server: FlightSqlServer, sql: str) -> threading.Thread:
    def run() -> None:
        with flight.connect(server.uri) as client:
            client.get_flight_info(_descriptor(sql))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_the_turn_waits_for_no_place(server: FlightSqlServer) -> None:
    """A long text that finds all places taken gives its turn to others, and runs once a place is free."""
    core = server._core
    places, number = list[AdmissionSlot](), 0
    while (place := core.slots.take_now(Requester(f"user{number}", ""))) is not None:
        places.append(place)
        number += 1
    thread = _runs(server, _long("SELECT 1"))
    await_true(lambda: core.slots.queued == 1)
    assert core.long_texts.reading == 0
    _turn(core.long_texts, _BOB).end()
    for taken in places:
        taken.release()
    thread.join(60)
    assert not thread.is_alive()
    await_true(lambda: not core.slots.running)


_CHANGES = {
    "insert": "INSERT INTO locked VALUES (2)",
    "returning": "INSERT INTO locked VALUES (2) RETURNING a",
    "update": "UPDATE locked SET a = 2",
    "update by a query": "UPDATE locked SET a = (SELECT 2)",
    "delete": "DELETE FROM locked WHERE a = 1",
    "merge": "MERGE INTO locked USING (SELECT 3 AS b) s ON a = b WHEN NOT MATCHED THEN INSERT VALUES (b)",
}


@pytest.mark.parametrize(
    "sql",
    [pytest.param(sql, id=name, marks=[pytest.mark.slow] * (name != "insert")) for name, sql in _CHANGES.items()],
)
def test_a_change_that_waits_for_its_table_holds_no_turn(real: FlightSqlServer, sql: str) -> None:
    """While a long change waits for the lock of its table, other long texts are read."""
    server, core = real, real._core
    with cursor_of(server) as cursor:
        cursor.execute("CREATE OR REPLACE TABLE locked AS SELECT 1 AS a")
        store = core.database.catalog.store  # type: ignore[attr-defined]
        entry = next(entry for name, entry in store.entries.items() if name.name == "locked")
        with store.rewriting(rows_of(entry)):
            thread = _runs(server, _long(sql))
            await_true(lambda: core.slots.running == 1 and core.long_texts.reading == 0)
            with cursor_of(server) as other:
                assert ask(other, _long("SELECT 7")) == [(7,)]
            assert thread.is_alive()
        thread.join(60)
        assert not thread.is_alive()
        assert ask(cursor, "SELECT a FROM locked ORDER BY a") != [(1,)]


@pytest.mark.slow
def test_a_long_statement_takes_one_turn(real: FlightSqlServer) -> None:
    """A long change or query is read in one turn, which also finds its kind."""
    turns = real._core.long_texts._turns
    with flight.connect(real.uri) as client:
        for sql in ("CREATE TABLE few (a BIGINT)", "INSERT INTO few VALUES (1) RETURNING a", "SELECT 1"):
            before = turns.waits()[0]
            client.get_flight_info(_descriptor(_long(sql)))
            assert turns.waits()[0] - before == 1, sql
