"""Links whose bandwidth changes, in arithmetic: when do bytes that come at a time have passed?"""

import math
import random
from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = math.inf
GIGABIT: Final = 1e9 / 8
"""In bytes."""
STEP_SECONDS: Final = 0.004
"""A part is about what a link passes in so long."""
_LATE_SECONDS: Final = 0.02
"""What waited for a timer that was late may follow at once, up to so much."""
_IDLE_SECONDS: Final = 0.001
"""So much of the time in which nobody sent anything may be made up for."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A bandwidth that changes: bits a second in 10^9, each for `seconds`, again from the beginning after the last."""

    gigabits: tuple[float, ...]
    seconds: float = 1.0

    def __post_init__(self) -> None:
        """Check that everything arrives some time."""
        if not self.gigabits or min(self.gigabits) <= 0 or self.seconds <= 0:
            raise ValueError(f"trace: expected bandwidths and seconds above 0; got {self}")

    def arrival(self, start: float, size: float) -> float:
        """Return when bytes that begin to pass at a time have passed; times are since the beginning of the trace."""
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
        """Return the bytes a second at a time."""
        return self.gigabits[int(now // self.seconds) % len(self.gigabits)] * GIGABIT


def random_trace(
    seed: int, segments: int = 60, seconds: float = 0.5, *, low: float = 0.1, high: float = 10.0, uniform: bool = False
) -> Trace:
    """Return a trace whose every segment is drawn log-uniformly, or uniformly, as CacheGen's are (section 7.3)."""
    drawn = random.Random(seed)  # noqa: S311 - no cryptography
    if uniform:
        return Trace(tuple(drawn.uniform(low, high) for _ in range(segments)), seconds)
    logs = math.log(low), math.log(high)
    return Trace(tuple(math.exp(drawn.uniform(*logs)) for _ in range(segments)), seconds)


class Bucket:
    """One direction of a link: tells when bytes have passed that come at a time. Times are since the trace began."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._free = 0.0

    def passed(self, size: int, now: float, *, waited: bool = False) -> float:
        """Return when these bytes will have passed, after all before them; `waited` where they were there already."""
        earliest = now - (_LATE_SECONDS if waited else _IDLE_SECONDS)
        self._free = self.trace.arrival(max(self._free, earliest, 0.0), size)
        return self._free

    def follow(self, trace: Trace, now: float) -> None:
        """Take another trace from a time on, at which that begins."""
        self.trace = trace
        self._free = max(0.0, min(self._free - now, STEP_SECONDS))
