"""The arithmetic of links whose bandwidth changes: when have bytes passed that arrive at a given time?"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_TENTH: Final = 0.1
"""The seconds of one bandwidth in most shapes."""
_OUTAGE: Final = 0.001
"""The Gbit/s of a link that is nearly dead."""


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


def random_trace(seed: int, high: float = 10.0) -> Trace:
    """Return bandwidths between 0.1 and `high` that hold for half a second, each drawn log-uniformly."""
    drawn = _drawn(seed)
    return Trace(tuple(_log(drawn, 0.1, high) for _ in range(60)), 0.5)


def steps(seed: int) -> Trace:
    """Return bandwidths that hold for one to three seconds, and then change to any other."""
    drawn = _drawn(seed)
    return _tenths(rate for _ in range(20) for rate in [_log(drawn, 0.1, 10.0)] * drawn.randint(10, 30))


def sawtooth(seed: int) -> Trace:
    """Return a bandwidth that rises evenly for one to four seconds, and then falls back at once."""
    drawn = _drawn(seed)
    low, high, count = _log(drawn, 0.1, 0.5), _log(drawn, 2.0, 10.0), drawn.randint(10, 40)
    return _turned(drawn, [low + (high - low) * step / (count - 1) for step in range(count)])


def outages(seed: int) -> Trace:
    """Return a good link on which nearly nothing passes for 0.1 to 1 second, every one to four seconds."""
    drawn, found = _drawn(seed), list[float]()
    good = _log(drawn, 1.0, 10.0)
    for _ in range(20):
        found += [good] * drawn.randint(10, 40) + [_OUTAGE] * drawn.randint(1, 10)
    return _turned(drawn, found)


def bursts(seed: int) -> Trace:
    """Return a slow link with short bursts of a fast one."""
    drawn, found = _drawn(seed), list[float]()
    slow, fast = _log(drawn, 0.1, 0.5), _log(drawn, 5.0, 10.0)
    for _ in range(40):
        found += [slow] * drawn.randint(3, 15) + [fast] * drawn.randint(1, 4)
    return _turned(drawn, found)


def slow_start(seed: int) -> Trace:
    """Return a bandwidth that doubles every 0.1 s up to its most, holds for some seconds, and starts again."""
    drawn, found = _drawn(seed), list[float]()
    most = _log(drawn, 1.0, 10.0)
    for _ in range(20):
        found += [rate for step in range(10) if (rate := 0.05 * 2**step) < most] + [most] * drawn.randint(5, 40)
    return _tenths(found)


def diurnal(seed: int) -> Trace:
    """Return a bandwidth that swings within a minute, with noise: a day of a shared link, shortened."""
    drawn = _drawn(seed)
    low, high, phase = _log(drawn, 0.1, 1.0), _log(drawn, 3.0, 10.0), drawn.uniform(0.0, math.tau)
    middle, half = math.sqrt(low * high), math.log(high / low) / 2
    waves = (math.sin(phase + math.tau * step / 600) for step in range(600))
    return _tenths(middle * math.exp(half * wave + drawn.gauss(0.0, 0.2)) for wave in waves)


def two_states(seed: int) -> Trace:
    """Return a good and a bad bandwidth, each for a random time (a Markov chain)."""
    drawn, found, good = _drawn(seed), list[float](), True
    rates, leaves = (_log(drawn, 0.1, 0.5), _log(drawn, 2.0, 10.0)), (drawn.uniform(0.1, 0.5), drawn.uniform(0.05, 0.3))
    for _ in range(600):
        found.append(rates[good])
        good ^= drawn.random() < leaves[good]
    return _tenths(found)


def ramp(seed: int) -> Trace:
    """Return a bandwidth that moves evenly from one value to another within 5 to 20 s, and back."""
    drawn = _drawn(seed)
    first, last, count = _log(drawn, 0.1, 10.0), _log(drawn, 0.1, 10.0), drawn.randint(50, 200)
    way = [first + (last - first) * step / count for step in range(count)]
    return _turned(drawn, [*way, *reversed(way)])


def wireless(seed: int) -> Trace:
    """Return a bandwidth that wanders around its mean, with short fades: as over radio."""
    drawn, found, state = _drawn(seed), list[float](), 0.0
    mean = _log(drawn, 0.3, 2.0)
    while len(found) < 600:
        state = 0.9 * state + drawn.gauss(0.0, 0.3)
        rate = min(10.0, mean * math.exp(state))
        found += [rate * 0.05] * drawn.randint(1, 3) if drawn.random() < 0.03 else [rate]
    return Trace(tuple(found), 0.05)


def constant(seed: int) -> Trace:
    """Return one bandwidth for ever: slow with an even seed, fast with an odd one."""
    drawn = _drawn(seed)
    return Trace((_log(drawn, 2.0, 10.0) if seed % 2 else _log(drawn, 0.1, 0.8),))


SHAPES: Final[Mapping[str, Callable[[int], Trace]]] = {
    "random": random_trace,
    **{
        shape.__name__.replace("_", " "): shape
        for shape in (
            steps, sawtooth, outages, bursts, slow_start, diurnal, two_states, ramp, wireless, constant
        )
    },
}  # fmt: skip
"""The shapes of traces by name; the same seed gives the same trace."""


def _drawn(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no cryptography


def _log(drawn: random.Random, low: float, high: float) -> float:
    """Return a bandwidth, drawn log-uniformly."""
    return math.exp(drawn.uniform(math.log(low), math.log(high)))


def _tenths(rates: Iterable[float]) -> Trace:
    return Trace(tuple(rates), _TENTH)


def _turned(drawn: random.Random, rates: Sequence[float]) -> Trace:
    """Return a trace that begins at a random place of `rates`."""
    place = drawn.randrange(len(rates))
    return _tenths((*rates[place:], *rates[:place]))


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
