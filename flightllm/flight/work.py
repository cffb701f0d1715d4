"""Do work that cannot be interrupted in a thread of its own, so that its client is answered in time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

from flightllm.common.admission import Place
from flightllm.common.limits import Deadline
from flightllm.errors import BusyError, CancelledError, FlightLLMError
from flightllm.execution.cancel_token import stopped_by
from flightllm.observe.query_record import Stop

_T = TypeVar("_T")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Patience:
    """What ends the wait for some work: the client's leaving, and the deadline.

    `gone` is asked in the thread that answers the call alone.
    """

    gone: Callable[[], bool]
    deadline: Deadline = Deadline()  # noqa: RUF009 - frozen

    def check(self) -> None:
        """Raise `CancelledError` or `StatementTimeoutError` once the work is no longer to be waited for."""
        if self.gone():
            raise CancelledError("the client cancelled the statement")
        if self.deadline.over:
            raise self.deadline.error()


def do(
    function: Callable[[], _T],
    place: Place,
    patience: Patience,
    *,
    stop: Callable[[FlightLLMError], None] = lambda _: None,
    discard: Callable[[_T], None] = lambda _: None,
    grace_seconds: float = 0.0,
) -> _T:
    """Return what `function` returns, run in a thread of its own that holds `place` until it has returned.

    Once it is waited for no longer, `stop` gets the reason, and it may still end well within `grace_seconds`. What
    cannot be stopped goes on: its client is told, its place stays taken until the thread has really ended, and
    `discard` gets what nobody takes any more. What runs on the way, in planning above all, ends by `flightllm.stops`.

    Raises:
        BusyError: the system starts no more threads.
        CancelledError: the client left before.
        StatementTimeoutError: the deadline came before.
    """
    inner = Stop()

    def end(reason: FlightLLMError) -> None:
        inner.because(reason)
        stop(reason)

    with stopped_by(inner):
        future = begin(function, place)
    return await_end(future, place, patience, stop=end, discard=discard, grace_seconds=grace_seconds)


def begin(function: Callable[[], _T], place: Place) -> "Future[_T]":
    """Run a function in a thread of its own that holds `place` until it has returned."""
    future: Future[_T] = Future()

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            place.release()
            future.set_exception(error)
        else:
            place.release()
            future.set_result(result)

    run = copy_context().run  # what is bound to log events and traces goes with it
    thread = threading.Thread(target=run, args=(work,), name="statement", daemon=True)
    start(thread, place)
    return future


def await_end(
    future: "Future[_T]",
    place: Place,
    patience: Patience,
    *,
    stop: Callable[[FlightLLMError], None] = lambda _: None,
    discard: Callable[[_T], None] = lambda _: None,
    grace_seconds: float = 0.0,
) -> _T:
    """Return what some work that holds a place returns, or end the wait; see `do`."""
    try:
        while not _ended(future, _POLL_SECONDS):
            patience.check()
    except FlightLLMError as reason:
        stop(reason)
        if not _ended(future, grace_seconds) or isinstance(future.exception(), CancelledError):
            if not future.done():
                place.left_behind()
            future.add_done_callback(lambda done: None if done.exception() else discard(done.result()))
            raise
    return future.result()


def start(thread: threading.Thread, place: Place) -> None:
    """Start the thread that is to hold `place`.

    Raises:
        BusyError: the system starts no more threads; the place is given back.
    """
    try:
        thread.start()
    except RuntimeError as error:
        place.release()
        raise BusyError("the server has no room for another thread; try again in a moment") from error


def _ended(future: "Future[_T]", seconds: float) -> bool:
    return bool(wait([future], seconds).done)
