"""Count the steps of a piece of work: the lines that run in this thread, once for each turn of a loop."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python a piece of work runs."""
    found = 0

    def seen(frame: FrameType, event: str, given: object) -> Any:  # noqa: ARG001 - the shape of a trace function
        nonlocal found
        found += 1
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        work()
    finally:
        sys.settrace(before)
    return found
