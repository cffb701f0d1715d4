"""What was measured between an engine and a store: bytes a second, a round trip, and how long decoding takes."""

import threading
from collections import deque
from typing import Final

_WINDOW_SECONDS: Final = 0.2
"""The time under way that the throughput is taken over: it evens out bursts, and soon follows a link that changes."""
_STALE_SECONDS: Final = 30.0
"""After so long without a measurement nothing is known: whoever was put off by a slow link tries it again."""
_LEAST_SECONDS: Final = 1e-3
"""Less time under way than this says nothing of a link."""
_NEW: Final = 0.5
"""Weight of the latest measurement in an average."""


class Meter:
    """Measures a link by the parts that come over it, from all transfers together. Safe to use from several threads.

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
        self._since: dict[int, float] = {}
        """By transfer, when its last part came; before the first one, when that could have come."""
        self._count = 0
        self._round_trip: tuple[float, float] | None = None
        """Seconds, and when they were measured."""
        self._decoding: dict[str, float] = {}

    @property
    def transfers(self) -> int:
        """Return how many are under way."""
        with self._lock:
            return len(self._since)

    def begin(self, now: float) -> int:
        """Count a transfer as under way from its request on; return its number, for `part` and `end`."""
        trip = self.round_trip(now)
        with self._lock:
            self._count += 1
            self._since[self._count] = now + trip
            return self._count

    def part(self, transfer: int, size: int, now: float) -> None:
        """Count bytes that have come."""
        with self._lock:
            self._sample(size, max(0.0, now - self._since[transfer]), now)
            self._since[transfer] = now

    def end(self, transfer: int, now: float) -> None:
        """Count a transfer as ended; the time in which nothing came counts too."""
        with self._lock:
            stalled = self._stalled(transfer, now)
            if stalled:
                self._sample(0, stalled, now)
            del self._since[transfer]

    def throughput(self, now: float) -> float | None:
        """Return the bytes a second of the whole link, or None where nothing is known of it lately."""
        with self._lock:
            stalled = sum(self._stalled(transfer, now) for transfer in self._since)
            if not self._samples or (now - self._sampled > _STALE_SECONDS and not self._since):
                return None
            seconds = self._seconds + stalled / max(1, len(self._since))
            return self._bytes / seconds if seconds >= _LEAST_SECONDS else None

    def asked(self, seconds: float, now: float) -> None:
        """Learn how long a question without bytes took, which is what each transfer begins with."""
        known = self.round_trip(now) or seconds
        with self._lock:
            self._round_trip = known + _NEW * (seconds - known), now

    def round_trip(self, now: float) -> float:
        """Return the seconds of a round trip, 0 where none was measured lately."""
        with self._lock:
            if self._round_trip is None or now - self._round_trip[1] > _STALE_SECONDS:
                return 0.0
            return self._round_trip[0]

    def decoded(self, codec: str, tokens: int, seconds: float) -> None:
        """Learn how long decoding took."""
        with self._lock:
            known = self._decoding.get(codec, seconds / tokens)
            self._decoding[codec] = known + _NEW * (seconds / tokens - known)

    def decode_seconds(self, codec: str, tokens: int) -> float:
        """Return how long decoding will take, 0 where it was not measured."""
        with self._lock:
            return self._decoding.get(codec, 0.0) * tokens

    def _sample(self, size: int, seconds: float, now: float) -> None:
        share = seconds / max(1, len(self._since))
        self._samples.append((size, share))
        self._bytes += size
        self._seconds += share
        self._sampled = now
        while self._seconds - self._samples[0][1] >= _WINDOW_SECONDS:
            size, share = self._samples.popleft()
            self._bytes -= size
            self._seconds -= share

    def _stalled(self, transfer: int, now: float) -> float:
        """Return how much longer than usual nothing has come; the caller holds the lock."""
        usual = self._seconds / len(self._samples) * len(self._since) if self._samples else 0.0
        return max(0.0, now - self._since[transfer] - usual)
