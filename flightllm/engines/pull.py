"""Pull the available requests from a lazy iterator, which can pause."""

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice

from flightllm.errors import CancelledError
from flightllm.llm.engine import Request


class More(Enum):
    """The state of an iterator after a pull: more requests are ready, it pauses, or it has ended."""

    READY = "ready"
    PAUSED = "paused"
    ENDED = "ended"


def pull(requests: Iterator[Request | None], most: int, cancelled: Callable[[], bool]) -> tuple[list[Request], More]:
    """Return up to `most` requests, and the iterator's state; fewer requests if the iterator pauses or ends.

    Raises:
        CancelledError: `cancelled()` returned True.
    """
    pulled: list[Request] = []
    for request in islice(requests, most):
        if cancelled():
            raise CancelledError("the query was cancelled")
        if request is None:
            return pulled, More.PAUSED
        pulled.append(request)
    return pulled, More.READY if len(pulled) == most else More.ENDED
