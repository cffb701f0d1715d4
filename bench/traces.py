"""The arithmetic of links whose bandwidth changes: when have bytes passed that arrive at a given time?"""

import math
import random
from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = math.inf
GIGABIT: Final = 1e9 / 8
"""In bytes."""
STEP_SECONDS: Final = 0.004
"""A link passes about one part in this many seconds."""
_LATE_SECONDS: Final = 0.02
"""The most seconds of a late timer that a link catches up at once."""
_IDLE_SECONDS: Final = 0.001
"""The most seconds of idle time that a link catches up."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A bandwidth that changes: a sequence of Gbit/s, each for `seconds`. The sequence repeats after its end."""

    gigabits: tuple[float, ...]
    seconds: float = 1.0

    def __post_init__(self) -> None:
        """Check that all bytes arrive at some time.

        Raises:
            ValueError: a bandwidth or `seconds` is not above 0.
        """
        if not self.gigabits or min(self.gigabits) <= 0 or self.seconds <= 0:
            raise ValueError(f"trace: expected bandwidths and seconds above 0; got {self}")

    def arrival(self, start: float, size: float) -> float:
        """Return the time at which `size` bytes have passed that begin to pass at `start`.

        Times are in seconds since the trace began.
        """
        whole = sum(self.gigabits) * GIGABIT * self.seconds
        if math.isinf(whole):
            return start
        rounds, now = (int(size // whole), start)
        size -= rounds * whole
        place = int(now // self.seconds)
        while True:
            rate = self.gigabits[place % len(self.gigabits)] * GIGABIT
            end = (place + 1) * self.seconds
            if size <= rate * (end - now):
                return now + size / rate + rounds * self.seconds * len(self.gigabits)
            size -= rate * max(0.0, end - now)
            now, place = end, place + 1

    def rate(self, now: float) -> float:
        """Return the bytes a second at the time `now`."""
        return self.gigabits[int(now // self.seconds) % len(self.gigabits)] * GIGABIT


def random_trace(
    seed: int, segments: int = 60, seconds: float = 0.5, *, low: float = 0.1, high: float = 10.0, uniform: bool = False
) -> Trace:
    """Return a trace with random segments, drawn log-uniformly, or uniformly as in CacheGen (section 7.3)."""
    drawn = random.Random(seed)  # noqa: S311 - no cryptography
    if uniform:
        return Trace(tuple(drawn.uniform(low, high) for _ in range(segments)), seconds)
    logs = math.log(low), math.log(high)
    return Trace(tuple(math.exp(drawn.uniform(*logs)) for _ in range(segments)), seconds)


class Bucket:
    """One direction of a link, which computes when arriving bytes have passed.

    Times are in seconds since the trace began.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._free = 0.0

    def passed(self, size: int, now: float, *, waited: bool = False) -> float:
        """Return the time at which these bytes have passed, after all earlier bytes.

        With `waited`, the bytes were already waiting.
        """
        earliest = now - (_LATE_SECONDS if waited else _IDLE_SECONDS)
        self._free = self.trace.arrival(max(self._free, earliest, 0.0), size)
        return self._free

    def follow(self, trace: Trace, now: float) -> None:
        """Follow another trace, which begins at the time `now`."""
        self.trace = trace
        self._free = max(0.0, min(self._free - now, STEP_SECONDS))
