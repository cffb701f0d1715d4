"""Find how many requests an endpoint can serve at once: more while throughput grows, fewer on overload.

The method is that of TCP's congestion control [1, 2], as in adaptive concurrency limits [3]: slow start, a binary
search below the last limit that was too high, careful probes above it, and a multiplicative decrease. [1] Jacobson,
Congestion Avoidance and Control, SIGCOMM 1988. [2] Xu et al., Binary Increase Congestion Control, INFOCOM 2004. [3]
Netflix, concurrency-limits, 2018.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

FIRST: Final = 8
"""The limit before the first answer."""
_GAIN: Final = 1.15
"""Slow start goes on while twice the requests give at least this many times the throughput."""
_PROBE, _PROBE_GAIN, _PROBE_ROUNDS = 1.25, 1.05, 10
"""Every so many rounds, try a higher limit; keep the higher limit if throughput grows by this factor."""
_SHRINK, _SLOW_SHRINK = 0.5, 0.8
_SLOW_PART, _SLOW_TIMES = 1 / 3, 4
"""An answer is slow if it takes this part of the timeout, and so many times as long as the fastest recent answer."""
_RECENT, _FEWEST, _SHARE = 20, 2, 0.15
"""Of the recent outcomes, so many and such a share must be signs of overload: one bad row can give a few of them."""
_FASTEST: Final = 200
_FIRST_SPACING, _LEAST_SPACING, _MOST_SPACING = 0.05, 0.02, 10.0
"""Seconds between two requests, where an endpoint limits the rate even of one request at a time."""
_SPACING_DECAY: Final = 0.9


class AdaptiveLimit:
    """The requests that one endpoint gets at once; requests beyond the limit wait here in their order.

    Only one event loop uses it, so it needs no lock. `most` bounds the limit. `timeout` is that of one request, in
    seconds; the time in this queue does not count. `changed` gets each new limit.

    Example with `most` 64 and one free slot at the endpoint: 8 requests run, then 16. The throughput is the same, so
    the limit goes back to 8. With 64 free slots, the throughput doubles each time, until the limit is 64.
    """

    def __init__(
        self,
        most: int,
        timeout: float,
        changed: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = max(1, most)
        self._timeout = timeout
        self._changed = changed
        self._clock = clock
        self._limit = min(FIRST, self.most)
        self._running = 0
        self._waiting = deque[asyncio.Future[None]]()
        self._ceiling = math.inf
        """The last limit that was too high, or that gave no more throughput; infinite during slow start."""
        self._throughput = 0.0
        """Answers a second at the limit before the present one."""
        self._round = _Round(clock())
        self._rounds = 0
        """Whole rounds at the present limit."""
        self._probed_from = 0
        """The limit before the probe that is under way; 0 without a probe."""
        self._judged = -math.inf
        """The time of the last decrease. Requests that were sent before it say nothing about the new limit."""
        self._together = -math.inf
        """The last time at which several requests ran at once."""
        self._signs = deque[bool](maxlen=_RECENT)
        self._latencies = deque[float](maxlen=_FASTEST)
        self.spacing = 0.0
        self._end = asyncio.Event()
        self._next = -math.inf
        """The time before which no request is sent."""

    @property
    def limit(self) -> int:
        """Return how many requests can run at once."""
        return self._limit

    @property
    def running(self) -> int:
        """Return how many requests run."""
        return self._running

    @asynccontextmanager
    async def place(self) -> AsyncIterator[float]:
        """Wait for a place, and yield the time at which the request is sent."""
        await self._enter()
        try:
            if (pause := self._reserved()) > 0:
                await asyncio.sleep(pause)
            yield self._clock()
        finally:
            self._leave()

    async def next_end(self) -> None:
        """Wait until a running request ends, with an answer or a failure."""
        await self._end.wait()

    def answered(self, sent: float) -> None:
        """Count an answer to a request that was sent at the time `sent`."""
        now = self._clock()
        latency = now - sent
        self._latencies.append(latency)
        self.spacing = self.spacing * _SPACING_DECAY if self.spacing > _LEAST_SPACING else 0.0
        slow = latency > self._timeout * _SLOW_PART and latency > _SLOW_TIMES * min(self._latencies)
        self._sign(sent, _SLOW_SHRINK, overload=slow)
        self._round.answers += 1
        if self._round.answers >= self._limit:
            self._end_round(now)

    def overloaded(self, sent: float, *, rate: bool = False) -> None:
        """Count a timeout or a rejection that can come of overload; with `rate`, the endpoint limits the rate."""
        if rate and self._limit == 1 and sent >= self._judged:
            self.spacing = min(_MOST_SPACING, max(_FIRST_SPACING, 2 * self.spacing))
            self._judged = self._clock()
        self._sign(sent, _SHRINK, overload=True)

    def refused(self, sent: float) -> None:
        """Count a rejection by an endpoint that is overloaded or gone.

        If no other request ran meanwhile, the load from here is not the cause, so slow start begins again.
        """
        if self._running or self._together >= sent:
            self._sign(sent, _SHRINK, overload=True)
            return
        self._judged, self._ceiling, self._throughput = self._clock(), math.inf, 0.0
        self._signs.clear()
        self._set(FIRST)

    async def _enter(self) -> None:
        if self._running < self._limit and not self._waiting:
            self._start()
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.cancelled():  # the place came together with the cancellation
                self._leave()
            raise

    def _start(self) -> None:
        if not self._running:
            self._round = _Round(self._clock())  # the idle time before it does not count
        self._running += 1
        self._round.full = self._round.full or self._running >= self._limit

    def _leave(self) -> None:
        if self._running > 1:
            self._together = self._clock()
        self._running -= 1
        ended, self._end = self._end, asyncio.Event()
        ended.set()
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._running < self._limit:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._start()
                waiter.set_result(None)

    def _reserved(self) -> float:
        """Reserve the next time at which a request can be sent; return the seconds until then."""
        now = self._clock()
        due = max(now, self._next)
        self._next = due + self.spacing
        return due - now

    def _sign(self, sent: float, factor: float, *, overload: bool) -> None:
        """Count an outcome, and lower the limit if too many recent outcomes are signs of overload."""
        self._signs.append(overload)
        count = sum(self._signs)
        if not overload or sent < self._judged or count < _FEWEST or count < _SHARE * len(self._signs):
            return
        self._judged = self._clock()
        self._signs.clear()
        self._ceiling = self._limit
        self._set(int(self._limit * factor))

    def _end_round(self, now: float) -> None:
        """Change the limit after as many answers as the limit allows requests, if the limit was reached."""
        ended, throughput = self._round, self._round.answers / max(now - self._round.began, 1e-6)
        self._round = _Round(now)
        if not ended.full or self.spacing:
            return
        self._rounds += 1
        if self._probed_from:
            self._end_probe(throughput)
        elif self._ceiling == math.inf:
            self._double(throughput)
        elif self._limit + 1 < self._ceiling:
            self._set((self._limit + 1 + int(self._ceiling)) // 2)
        elif self._rounds >= _PROBE_ROUNDS and self._limit < self.most:
            self._throughput, before = throughput, self._limit
            self._set(math.ceil(self._limit * _PROBE))
            self._probed_from = before

    def _double(self, throughput: float) -> None:
        """Take a step of slow start, or end it at the limit before, which had the same throughput."""
        if self._limit == self.most:
            self._ceiling = self._limit + 1
        elif throughput >= _GAIN * self._throughput:
            self._throughput = throughput
            self._set(2 * self._limit)
        else:
            self._ceiling = self._limit // 2 + 1
            self._set(self._limit // 2)

    def _end_probe(self, throughput: float) -> None:
        before, self._probed_from = self._probed_from, 0
        if throughput < _PROBE_GAIN * self._throughput:
            self._set(before)
        self._ceiling = self._limit + 1
        self._rounds = 0

    def _set(self, limit: int) -> None:
        self._rounds = self._probed_from = 0
        self._round = _Round(self._clock())
        limit = min(self.most, max(1, limit))
        if limit != self._limit:
            self._limit = limit
            self._changed(limit)
            self._admit()


class _Round:
    """As many answers as the limit allows requests."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.answers = 0
        self.full = False
        """Whether the limit was reached."""
