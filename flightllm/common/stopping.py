"""Let the reading of a text end early, once nobody waits for its statement."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flightllm.errors import CancelledError

_stopped: ContextVar[Callable[[], bool] | None] = ContextVar("stopped", default=None)


@contextmanager
def stopped_if(stopped: Callable[[], bool]) -> Iterator[None]:
    """Let `check_wanted` raise once `stopped()` is true, in the `with` block and in threads that get its context."""
    token = _stopped.set(stopped)
    try:
        yield
    finally:
        _stopped.reset(token)


def check_wanted() -> None:
    """Raise `CancelledError` if the current statement must end. Long loops over tokens call this now and then."""
    stopped = _stopped.get()
    if stopped is not None and stopped():
        raise CancelledError("the statement was cancelled while it was read")
