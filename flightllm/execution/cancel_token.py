"""What tells work on the way to a statement's rows, planning above all, that nobody waits for it any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flightllm.observe.query_record import Stop

_stop: ContextVar[Stop | None] = ContextVar("stop", default=None)


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """Let `stop` end what is done inside, in this thread and where it hands its context on."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def stop_of_planning() -> Stop:
    """Return what ends the present work; where nothing does, one that nobody sets."""
    return _stop.get() or Stop()


def stopped() -> bool:
    """Tell whether the present work is to end."""
    return stop_of_planning().is_set()
