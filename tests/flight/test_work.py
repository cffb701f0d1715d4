"""Work that cannot be stopped: its client is answered, its place stays taken until it ends."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import flight

from flightllm.common.admission import AdmissionControl
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import TimeLimit
from flightllm.errors import BusyError, CancelledError, FlightLLMError, SqlError, StatementTimeoutError
from flightllm.flight.server import FlightSqlServer
from flightllm.flight.work import CallDeadline, do
from tests.servers import await_true

OVER = TimeLimit(0.0)


def _slots() -> AdmissionControl:
    return AdmissionControl(1, queue=1, wait_seconds=0.01, poll_seconds=0.01)


def test_what_runs_on_keeps_its_place() -> None:
    """The wait ends with the deadline; the place is free, and the result given up, once the thread has ended."""
    slots, go_on, discarded, reasons = _slots(), threading.Event(), list[int](), list[FlightLLMError]()

    def slow() -> int:
        go_on.wait(30)
        return 7

    place = slots.take(Requester("a", "1"), lambda: False)
    patience = CallDeadline(lambda: False, OVER.start())
    with pytest.raises(StatementTimeoutError, match=r"\[limits\] statement_seconds = 0 is the most"):
        do(slow, place, patience, stop=reasons.append, discard=discarded.append)
    assert (slots.running, slots.left_behind, discarded, len(reasons)) == (1, 1, [], 1)
    go_on.set()
    await_true(lambda: not slots.running)
    assert slots.left_behind == 0
    await_true(lambda: discarded == [7])


class _Tokens:
    """A value of a kind that weak references can name."""


def test_an_error_keeps_no_values_of_its_statement() -> None:
    """The tokens of a long text are gone with the statement, also those of a cause, without a collection of garbage."""
    seen = list[weakref.ref[_Tokens]]()

    def reads() -> None:
        tokens = _Tokens()
        seen.append(weakref.ref(tokens))
        raise ValueError("a bad token")

    def fails() -> None:
        tokens = _Tokens()
        seen.append(weakref.ref(tokens))
        try:
            reads()
        except ValueError as error:
            raise SqlError("no statement") from error

    gc.disable()
    try:
        place = _slots().take(Requester("a", "1"), lambda: False)
        with pytest.raises(SqlError) as kept:
            do(fails, place, CallDeadline(lambda: False))
        assert [one() for one in seen] == [None, None]
    finally:
        gc.enable()
    assert isinstance(kept.value.__cause__, ValueError)


def test_what_ends_well_in_time_counts() -> None:
    """What took effect although it was to stop is no failure; what stopped is."""
    stopped = threading.Event()

    def finishing() -> int:
        stopped.wait(30)
        return 7

    def obeying() -> int:
        stopped.wait(30)
        raise CancelledError("stopped")

    for function, outcome in ((finishing, 7), (obeying, None)):
        stopped.clear()
        place = _slots().take(Requester("a", "1"), lambda: False)
        patience = CallDeadline(lambda: False, OVER.start())

        def run(function: Callable[[], int] = function, place: Any = place, patience: CallDeadline = patience) -> int:
            return do(function, place, patience, stop=lambda _: stopped.set(), grace_seconds=30)

        if outcome is None:
            with pytest.raises(StatementTimeoutError):
                run()
        else:
            assert run() == outcome


def test_errors_and_clients_that_go() -> None:
    """What the work raises comes out, and so does the client's leaving."""
    slots, go_on = _slots(), threading.Event()

    def broken() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        do(broken, slots.take(Requester("a", "1"), lambda: False), CallDeadline(lambda: False))
    with pytest.raises(CancelledError):
        do(go_on.wait, slots.take(Requester("a", "1"), lambda: False), CallDeadline(lambda: True))
    assert (slots.running, slots.left_behind) == (1, 1)
    go_on.set()
    await_true(lambda: not slots.running)


def test_planning_is_left_behind(server: FlightSqlServer, database: Any) -> None:
    """A query whose planning takes too long fails in time; its place is taken until the planner returns."""
    from flightllm.flight.messages import pack, sql_message

    database.time_limit = TimeLimit(0.2)
    with flight.connect(server.uri) as bare:
        command = flight.FlightDescriptor.for_command(pack(sql_message("CommandStatementQuery", query="hard")))
        with pytest.raises(flight.FlightTimedOutError, match="statement_seconds"):
            bare.get_flight_info(command)
        slots = server._core.slots
        assert (slots.running, server.load().left_behind, database.records) == (1, 1, [])
        database.may_plan.set()
        await_true(lambda: not slots.running)
        assert database.records[0].cancelled.wait(30)
    assert server._core.refusals.counts()["statement_seconds"] == 1


def test_no_thread_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system starts no more threads the client is told, and the place is free again."""
    slots = _slots()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    place = slots.take(Requester("a", "1"), lambda: False)
    with pytest.raises(BusyError, match="another thread"):
        do(lambda: 1, place, CallDeadline(lambda: False))
    assert slots.running == 0
