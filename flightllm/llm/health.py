"""Whether an engine answers, as far as its callers have seen."""

import time
from collections.abc import Callable

_REMEMBERED_SECONDS = 30.0
"""A failure is held against the engine for so long: nobody asks one that is said to be down, so nobody would see it
come back."""


class Health:
    """What was last seen of an engine. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: float | None = None

    def answered(self) -> None:
        """Say that it answered."""
        self._failed_at = None

    def failed(self) -> None:
        """Say that it could not be reached."""
        self._failed_at = self._clock()

    @property
    def up(self) -> bool:
        """Tell whether it is there, unless it was gone when it was last asked."""
        failed = self._failed_at
        return failed is None or self._clock() - failed > _REMEMBERED_SECONDS
