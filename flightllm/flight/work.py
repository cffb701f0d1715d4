"""Run uninterruptible work in a separate thread, so that its client gets an answer in time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from traceback import clear_frames
from typing import TypeVar

from flightllm.common.admission import AdmissionSlot
from flightllm.common.limits import Deadline
from flightllm.errors import BusyError, CancelledError, FlightLLMError
from flightllm.execution.cancel_token import stopped_by
from flightllm.observe.query_record import CancelToken

_T = TypeVar("_T")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class CallDeadline:
    """The events that end the wait for some work: the client leaves, or the deadline passes.

    Only the thread that answers the call must call `gone`.
    """

    gone: Callable[[], bool]
    deadline: Deadline = Deadline()  # noqa: RUF009 - frozen

    def check(self) -> None:
        """Raise `CancelledError` if the client left, or `StatementTimeoutError` after the deadline."""
        if self.gone():
            raise CancelledError("the client cancelled the statement")
        if self.deadline.over:
            raise self.deadline.error()


def do(
    function: Callable[[], _T],
    place: AdmissionSlot,
    patience: CallDeadline,
    *,
    stop: Callable[[FlightLLMError], None] = lambda _: None,
    discard: Callable[[_T], None] = lambda _: None,
    grace_seconds: float = 0.0,
) -> _T:
    """Return the result of `function`, which runs in a new thread that holds `place` until it returns.

    When the wait ends early, `stop` gets the reason, and the function can still return within `grace_seconds`. A
    function that does not stop in time continues: its client gets the error, its place stays taken until the thread
    ends, and `discard` gets the unwanted result. Cancellable steps inside, planning above all, see the stop through
    `cancel_token.stopped_by`.

    Raises:
        BusyError: the system starts no more threads.
        CancelledError: the client left before the result.
        StatementTimeoutError: the deadline passed before the result.
    """
    inner = CancelToken()

    def end(reason: FlightLLMError) -> None:
        inner.because(reason)
        stop(reason)

    with stopped_by(inner):
        future = begin(function, place)
    return await_end(future, place, patience, stop=end, discard=discard, grace_seconds=grace_seconds)


def begin(function: Callable[[], _T], place: AdmissionSlot) -> "Future[_T]":
    """Run a function in a thread of its own that holds `place` until it has returned."""
    future: Future[_T] = Future()

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            _forget_locals(error)
            place.release()
            future.set_exception(error)
        else:
            place.release()
            future.set_result(result)

    run = copy_context().run  # keeps the context variables of logs and traces
    thread = threading.Thread(target=run, args=(work,), name="statement", daemon=True)
    start(thread, place)
    return future


def _forget_locals(error: BaseException) -> None:
    """Empty the ended frames of an error and of its causes.

    The error is in a circle: it has the frames, one frame has the future, and the future has the error. So the tokens
    of a long text would stay until Python's cycle collector frees them, and that stops all threads for up to a second.
    """
    todo, seen = [error], set[int]()
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            clear_frames(one.__traceback__)
            todo += [other for other in (one.__cause__, one.__context__) if other is not None]


def await_end(
    future: "Future[_T]",
    place: AdmissionSlot,
    patience: CallDeadline,
    *,
    stop: Callable[[FlightLLMError], None] = lambda _: None,
    discard: Callable[[_T], None] = lambda _: None,
    grace_seconds: float = 0.0,
) -> _T:
    """Return the result of work that holds a place, or end the wait; see `do`."""
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


def start(thread: threading.Thread, place: AdmissionSlot) -> None:
    """Start the thread that holds `place`.

    Raises:
        BusyError: the system starts no more threads; the place is released.
    """
    try:
        thread.start()
    except RuntimeError as error:
        place.release()
        raise BusyError("the server has no room for another thread; try again in a moment") from error


def _ended(future: "Future[_T]", seconds: float) -> bool:
    return bool(wait([future], seconds).done)
