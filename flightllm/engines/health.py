"""Track whether an engine answers, as far as its callers have seen."""

import time
from collections.abc import Callable

_REMEMBERED_SECONDS = 30.0
"""After this long, a failed engine counts as up again: callers do not ask an engine that is down, so they would not
notice its return."""


class Health:
    """The last observed state of an engine. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: float | None = None

    def answered(self) -> None:
        """Record that the engine answered."""
        self._failed_at = None

    def failed(self) -> None:
        """Record that the engine could not be reached."""
        self._failed_at = self._clock()

    @property
    def up(self) -> bool:
        """Return whether the engine had no failure within the last `_REMEMBERED_SECONDS`, or has answered since."""
        failed = self._failed_at
        return failed is None or self._clock() - failed > _REMEMBERED_SECONDS
