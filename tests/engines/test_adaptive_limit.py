"""The limit of an endpoint finds what the endpoint can serve, against endpoints that are simulated by their rules."""

import asyncio
import heapq
from collections.abc import Callable

import pytest

from flightllm.engines.adaptive_limit import FIRST, AdaptiveLimit


class Simulated:
    """An endpoint in simulated time: `slots` requests at once, each for `seconds`; the others wait in its queue."""

    def __init__(self, slots: int, seconds: float, most: int = 64, timeout: float = 1_000.0) -> None:
        self.now = 0.0
        self.timeout = timeout
        self.late = 0
        self.limit = AdaptiveLimit(most, timeout, clock=lambda: self.now)
        self._seconds = seconds
        self._free = [0.0] * slots

    def answer_at(self) -> float:
        """Return when a request is answered that is sent now."""
        end = max(self.now, heapq.heappop(self._free)) + self._seconds
        heapq.heappush(self._free, end)
        return end

    async def run(self, count: int) -> None:
        """Send requests without a pause, `limit` at once."""
        ends = list[tuple[float, int, float, object]]()
        for number in range(count):
            place = self.limit.place()
            entering = asyncio.ensure_future(place.__aenter__())
            await asyncio.sleep(0)
            while not entering.done():
                await self._end(ends)
            sent = entering.result()
            heapq.heappush(ends, (min(self.answer_at(), sent + self.timeout), number, sent, place))
        while ends:
            await self._end(ends)

    async def _end(self, ends: list[tuple[float, int, float, object]]) -> None:
        end, _, sent, place = heapq.heappop(ends)
        self.now = end
        if end - sent >= self.timeout:
            self.late += 1
            self.limit.overloaded(sent)
        else:
            self.limit.answered(sent)
        await place.__aexit__(None, None, None)  # type: ignore[attr-defined]
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("slots", "wanted"), [(1, lambda n: n <= 2 * FIRST), (64, lambda n: n == 64), (20, lambda n: 16 <= n <= 40)]
)
def test_slots(slots: int, wanted: Callable[[int], bool]) -> None:
    """The limit grows to what the endpoint can serve, and not far beyond."""
    endpoint = Simulated(slots, 1.0)
    asyncio.run(endpoint.run(600))
    assert wanted(endpoint.limit.limit)
    assert endpoint.now <= 1.3 * 600 / slots + 8  # slow start takes a few rounds


def test_timeouts() -> None:
    """Requests that time out lower the limit, until almost none does."""
    endpoint = Simulated(1, 1.0, timeout=5.0)
    asyncio.run(endpoint.run(300))
    assert endpoint.late <= 30
    assert endpoint.limit.limit <= 5


def test_one_late_row_is_no_overload() -> None:
    """A single failure among many answers does not lower the limit."""
    limit = AdaptiveLimit(8, 10.0, clock=lambda: 0.0)
    for _ in range(19):
        limit.answered(0.0)
    limit.overloaded(0.0)
    assert limit.limit == 8
    for _ in range(3):
        limit.overloaded(0.0)
    assert limit.limit == 4


def test_refusals_of_an_endpoint_that_is_down() -> None:
    """A refusal without other requests in flight is no overload: the limit begins anew, and grows as at first."""
    endpoint = Simulated(64, 1.0)

    async def refused(together: int) -> int:
        for _ in range(4):
            places = [endpoint.limit.place() for _ in range(together)]
            sent = [await place.__aenter__() for place in places]
            endpoint.now += 1.0
            for place, one in zip(places, sent, strict=True):
                await place.__aexit__(None, None, None)
                endpoint.limit.refused(one)
        return endpoint.limit.limit

    asyncio.run(endpoint.run(600))
    assert endpoint.limit.limit == 64
    assert asyncio.run(refused(4)) < FIRST
    assert asyncio.run(refused(1)) == FIRST
    asyncio.run(endpoint.run(600))
    assert endpoint.limit.limit == 64


def test_rate_limit() -> None:
    """Where even one request at a time is too many, requests are spaced; with answers the spaces shrink."""

    async def run() -> tuple[float, float]:
        now = 0.0
        limit = AdaptiveLimit(1, 10.0, clock=lambda: now)
        for sent in (0.0, 1.0):
            now = sent
            limit.overloaded(sent, rate=True)
        async with limit.place():
            pass
        spaced = limit.spacing
        for _ in range(30):
            limit.answered(now)
        return spaced, limit.spacing

    spaced, shrunk = asyncio.run(run())
    assert spaced == pytest.approx(0.1)
    assert shrunk == 0


def test_a_cancelled_waiter_leaves_its_place() -> None:
    """A caller that leaves while it waits takes no place from those behind it."""

    async def run() -> int:
        limit = AdaptiveLimit(1, 10.0)

        async def hold(seconds: float) -> None:
            async with limit.place():
                await asyncio.sleep(seconds)

        first, second, third = (asyncio.ensure_future(hold(seconds)) for seconds in (0.05, 60, 0))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait_for(asyncio.gather(first, third), 30)
        return limit.running

    assert asyncio.run(run()) == 0
