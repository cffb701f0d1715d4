"""What was measured between an engine and a store: bytes a second, a round trip, and how long decoding takes."""

import threading
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final

_WINDOW_SECONDS: Final = 0.2
"""The time under way that the throughput is taken over: it evens out bursts, and soon follows a link that changes."""
_LEAST_SECONDS: Final = 1e-3
"""Less time under way than this says nothing of a link."""
_STALE_SECONDS: Final = 30.0
"""After so long without a measurement nothing is known: whoever was put off by a slow link tries it again."""
_PART_BYTES: Final = 2**20
"""The most that comes at once: where nothing came yet, no more than this can be on its way."""
_TRIPS: Final = 8
"""The latest so many round trips are kept, and the least of them counts: a first one sets up a connection as well."""
_NEW: Final = 0.5
"""Weight of the latest measurement in the average of decoding."""


@dataclass(slots=True)
class _Flow:
    """A transfer under way: when something last came, or it began; how many parts came; and the first one's bytes."""

    last: float
    parts: int = 0
    first_bytes: int = 0
    waited: float = 0.0
    """For the first part."""


class Meter:
    """Measures a link by the parts that come over it, from all transfers together. Safe to use from several threads.

    What comes before a transfer's first part is counted as a round trip, not as a slow link, if more parts follow.
    Times are those of one clock, in seconds, given by the caller.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, float]] = deque()
        """Bytes, and the time they took: a part of the clock's where several transfers shared the link."""
        self._bytes = 0
        self._seconds = 0.0
        self._sampled = 0.0
        """When the last sample was taken."""
        self._flows: dict[int, _Flow] = {}
        self._count = 0
        self._trips: deque[tuple[float, float]] = deque(maxlen=_TRIPS)
        """Seconds, and when they were measured."""
        self._decoding: dict[str, tuple[float, float]] = {}
        """Seconds a token, and when that was measured."""

    @property
    def transfers(self) -> int:
        """Return how many are under way."""
        with self._lock:
            return len(self._flows)

    def begin(self, now: float) -> int:
        """Count a transfer as under way from its request on; return its number, for `part` and `end`."""
        with self._lock:
            if self._samples and not self._flows and now - self._sampled > _STALE_SECONDS:
                self._samples.clear()
                self._bytes, self._seconds = 0, 0.0
            self._count += 1
            self._flows[self._count] = _Flow(now)
            return self._count

    def part(self, transfer: int, size: int, now: float) -> None:
        """Count bytes that have come."""
        with self._lock:
            flow = self._flows[transfer]
            if flow.parts:
                self._sample(size, now - flow.last, now)
            else:
                flow.first_bytes, flow.waited = size, now - flow.last
                travelled = size * self._seconds / self._bytes * len(self._flows) if self._bytes else 0.0
                if travelled < flow.waited:
                    self._trips.append((flow.waited - travelled, now))
            flow.parts += 1
            flow.last = now

    def end(self, transfer: int, now: float) -> None:
        """Count a transfer as ended; the time in which nothing came counts too."""
        with self._lock:
            flow, stalled = self._flows[transfer], self._stalled(self._flows[transfer], now)
            if flow.parts == 1:
                trip = min((seconds for seconds, _ in self._trips), default=0.0)
                self._sample(flow.first_bytes, max(0.0, flow.waited - trip), now)
            if stalled:
                self._sample(0, stalled, now)
            del self._flows[transfer]

    def throughput(self, now: float) -> float | None:
        """Return the bytes a second of the whole link, or None where nothing is known of it lately.

        While nothing comes at all it sinks: it is what would have come by now.
        """
        with self._lock:
            flows = len(self._flows)
            stalled = sum(self._stalled(flow, now) for flow in self._flows.values()) / max(1, flows)
            seconds = self._seconds + stalled
            if not flows and now - self._sampled > _STALE_SECONDS:
                return None
            if not self._bytes:
                return _PART_BYTES / seconds if seconds > _WINDOW_SECONDS else None
            return self._bytes / seconds if seconds >= _LEAST_SECONDS else None

    def asked(self, seconds: float, now: float) -> None:
        """Learn how long a question without bytes took."""
        with self._lock:
            self._trips.append((seconds, now))

    def round_trip(self, now: float) -> float:
        """Return the seconds until the first of an answer comes, 0 where none came lately."""
        with self._lock:
            return min((seconds for seconds, when in self._trips if now - when <= _STALE_SECONDS), default=0.0)

    def decoded(self, codec: str, tokens: int, seconds: float, now: float) -> None:
        """Learn how long decoding took."""
        with self._lock:
            known = self._known(codec, now)
            found = seconds / tokens
            self._decoding[codec] = (found if known is None else known + _NEW * (found - known), now)

    def decode_seconds(self, codec: str, tokens: int, now: float) -> float:
        """Return how long decoding will take, 0 where it was not measured lately."""
        with self._lock:
            return (self._known(codec, now) or 0.0) * tokens

    def _known(self, codec: str, now: float) -> float | None:
        seconds, when = self._decoding.get(codec, (0.0, -inf))
        return seconds if now - when <= _STALE_SECONDS else None

    def _sample(self, size: int, seconds: float, now: float) -> None:
        share = seconds / max(1, len(self._flows))
        self._samples.append((size, share))
        self._bytes += size
        self._seconds += share
        self._sampled = now
        while self._seconds - self._samples[0][1] >= _WINDOW_SECONDS and self._bytes > self._samples[0][0]:
            size, share = self._samples.popleft()
            self._bytes -= size
            self._seconds -= share

    def _stalled(self, flow: _Flow, now: float) -> float:
        """Return how much longer than usual nothing has come; the caller holds the lock."""
        gap = self._seconds / len(self._samples) * len(self._flows) if self._samples else 0.0
        usual = min(gap, _WINDOW_SECONDS)
        if not flow.parts:
            usual += min((seconds for seconds, _ in self._trips), default=0.0)
        return max(0.0, now - flow.last - usual)
