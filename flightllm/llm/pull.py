"""Take what there is of a lazy iterator of requests, which may pause."""

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice

from flightllm.errors import CancelledError
from flightllm.model.engine import Request


class More(Enum):
    """What comes after the requests just pulled."""

    READY = "ready"
    PAUSED = "paused"
    ENDED = "ended"


def pull(requests: Iterator[Request | None], most: int, cancelled: Callable[[], bool]) -> tuple[list[Request], More]:
    """Take up to `most` requests, fewer where they pause or end.

    Raises:
        CancelledError: `cancelled()` turned true.
    """
    pulled: list[Request] = []
    for request in islice(requests, most):
        if cancelled():
            raise CancelledError("the query was cancelled")
        if request is None:
            return pulled, More.PAUSED
        pulled.append(request)
    return pulled, More.READY if len(pulled) == most else More.ENDED
