"""The time that one thread computes, which any thread can read."""

import threading
import time
from contextlib import suppress


class ThreadClock:
    """Counts for how many seconds the thread that created it had a core. It stands still once the thread has ended."""

    def __init__(self) -> None:
        self._clock: int | None = None
        with suppress(AttributeError, OSError):  # macOS has no such clocks
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._last = 0.0

    def seconds(self) -> float:
        """Return the seconds so far; 0 where the system has no clocks of threads."""
        if self._clock is not None:
            with suppress(OSError):  # the thread has ended
                self._last = time.clock_gettime(self._clock)
        return self._last
