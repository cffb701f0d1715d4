"""Measurements between an engine and a store: bytes a second, round trips and decoding times."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

_WINDOW_SECONDS: Final = 0.2
"""The transfer time over which the throughput is measured: it smooths bursts, and follows changes soon."""
_LEAST_SECONDS: Final = 1e-3
"""The least transfer time that gives a throughput."""
_STALE_SECONDS: Final = 30.0
"""The age at which measurements are dropped, so that requests try a link again that once was slow."""
_PART_BYTES: Final = 2**20
"""The most bytes of one part: before the first part, at most this much can be on its way."""
_TRIPS: Final = 8
"""The number of round trips that are kept; the shortest counts, because the first one also sets up a connection."""
_NEW: Final = 0.5
"""Weight of the latest measurement in the average of decoding."""


@dataclass(slots=True)
class _Flow:
    """A running transfer: the time of its last part (or its start), its number of parts, and its first part's bytes."""

    last: float
    parts: int = 0
    first_bytes: int = 0
    waited: float = 0.0
    """The seconds from the start to the first part."""


@dataclass(frozen=True, slots=True)
class _Decoding:
    """The measured seconds of decoding a token, and the time of the measurement."""

    seconds: float
    when: float
    is_first: bool = False

    def expected(self, now: float) -> float:
        """Return the expected seconds: less and less after a while, so that a codec that once was slow is tried again.

        The first measurement counts for a while only.
        """
        late = max(0.0, now - self.when - _STALE_SECONDS) / _STALE_SECONDS
        return self.seconds * 0.5**late if late == 0.0 or not self.is_first else 0.0


class Meter:
    """Measures a link by the parts of all transfers together. Thread-safe.

    The time before a transfer's first part counts as a round trip, not as a slow link, if more parts follow. Callers
    pass times in seconds, all of one clock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, float]] = deque()
        """Samples of bytes and of their seconds; a transfer's share of the seconds if several shared the link."""
        self._bytes = 0
        self._seconds = 0.0
        self._sampled = 0.0
        """The time of the last sample."""
        self._flows: dict[int, _Flow] = {}
        self._count = 0
        self._trips: deque[tuple[float, float]] = deque(maxlen=_TRIPS)
        """Round trips in seconds, and their times of measurement."""
        self._decoding: dict[str, _Decoding] = {}

    @property
    def transfers(self) -> int:
        """Return the number of running transfers."""
        with self._lock:
            return len(self._flows)

    def begin(self, now: float) -> int:
        """Start measuring a transfer when it is requested; return its number, for `part` and `end`."""
        with self._lock:
            if self._samples and not self._flows and now - self._sampled > _STALE_SECONDS:
                self._samples.clear()
                self._bytes, self._seconds = 0, 0.0
            self._count += 1
            self._flows[self._count] = _Flow(now)
            return self._count

    def part(self, transfer: int, size: int, now: float) -> None:
        """Record bytes that have arrived."""
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
        """Record the end of a transfer; the time since the last part counts too."""
        with self._lock:
            flow, stalled = self._flows[transfer], self._stalled(self._flows[transfer], now)
            if flow.parts == 1:
                trip = min((seconds for seconds, _ in self._trips), default=0.0)
                self._sample(flow.first_bytes, max(0.0, flow.waited - trip), now)
            if stalled:
                self._sample(0, stalled, now)
            del self._flows[transfer]

    def throughput(self, now: float) -> float | None:
        """Return the bytes a second of the whole link, or None if there is no recent measurement.

        While no part arrives, the value sinks with the time that passes.
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
        """Record the time of a request without a bitstream."""
        with self._lock:
            self._trips.append((seconds, now))

    def round_trip(self, now: float) -> float:
        """Return the seconds until an answer begins; 0 without recent measurements."""
        with self._lock:
            return min((seconds for seconds, when in self._trips if now - when <= _STALE_SECONDS), default=0.0)

    def decoded(self, codec: str, tokens: int, seconds: float, now: float) -> None:
        """Record the time of decoding."""
        with self._lock:
            known, found = self._decoding.get(codec), seconds / tokens
            if known is None:
                self._decoding[codec] = _Decoding(found, now, is_first=True)
                return
            # The first measurement includes the compilation of kernels, so the second one replaces it.
            expected = found if known.is_first else known.expected(now)
            self._decoding[codec] = _Decoding(expected + _NEW * (found - expected), now)

    def decode_seconds(self, codec: str, tokens: int, now: float) -> float:
        """Return the expected seconds of decoding; 0 without a measurement, so that an unknown codec is tried."""
        with self._lock:
            known = self._decoding.get(codec)
            return known.expected(now) * tokens if known else 0.0

    def is_known(self, codec: str) -> bool:
        """Return whether the speed of decoding is measured, not only with the compilation of kernels."""
        with self._lock:
            known = self._decoding.get(codec)
            return known is not None and not known.is_first

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
        """Return how much longer than usual no part has arrived. The caller must hold the lock."""
        gap = self._seconds / len(self._samples) * len(self._flows) if self._samples else 0.0
        usual = min(gap, _WINDOW_SECONDS)
        if not flow.parts:
            usual += min((seconds for seconds, _ in self._trips), default=0.0)
        return max(0.0, now - flow.last - usual)
