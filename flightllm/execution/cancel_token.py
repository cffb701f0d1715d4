"""A cancel token for the work before a statement's first row, such as planning. It stops with its statement."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flightllm.common.stopping import stopped_if
from flightllm.observe.query_record import CancelToken

_stop: ContextVar[CancelToken | None] = ContextVar("stop", default=None)


@contextmanager
def stopped_by(stop: CancelToken) -> Iterator[None]:
    """Let `stop` end the work in the `with` block, in this thread and in threads that get its context."""
    token = _stop.set(stop)
    try:
        with stopped_if(stop.is_set):
            yield
    finally:
        _stop.reset(token)


def stop_of_planning() -> CancelToken:
    """Return the token that ends the current work; without a token, a new one that is never set."""
    return _stop.get() or CancelToken()


def stopped() -> bool:
    """Return whether the current work must end."""
    return stop_of_planning().is_set()
