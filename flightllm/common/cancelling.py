"""Stop work on a query that was cancelled."""

from collections.abc import Callable

from flightllm.errors import CancelledError


def check_cancelled(cancelled: Callable[[], bool]) -> None:
    """Do nothing unless the query was cancelled.

    Raises:
        CancelledError: `cancelled()` returned True.
    """
    if cancelled():
        raise CancelledError("the query was cancelled")
