"""Let long steps of a statement end early once nobody waits for it, and tell when its text is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flightllm.errors import CancelledError

CHECKED_TOKENS = 4_096
"""How many tokens a loop reads between two calls of `check_wanted`."""
_stopped: ContextVar[Callable[[], bool] | None] = ContextVar("stopped", default=None)
_read: ContextVar[Callable[[], None] | None] = ContextVar("read", default=None)


@contextmanager
def stopped_if(stopped: Callable[[], bool]) -> Iterator[None]:
    """Let `check_wanted` raise once `stopped()` is true, in the `with` block and in threads that get its context."""
    token = _stopped.set(stopped)
    try:
        yield
    finally:
        _stopped.reset(token)


def check_wanted() -> None:
    """Raise `CancelledError` if the current statement must end. Long loops call this now and then."""
    stopped = _stopped.get()
    if stopped is not None and stopped():
        raise CancelledError("the statement was cancelled")


@contextmanager
def when_read(done: Callable[[], None]) -> Iterator[None]:
    """Let `text_is_read` call `done` in the `with` block."""
    token = _read.set(done)
    try:
        yield
    finally:
        _read.reset(token)


def text_is_read() -> None:
    """Note that the text of the current statement is read and planned; what follows takes little time of Python."""
    done = _read.get()
    if done is not None:
        done()
