"""Send one prompt of a long common start ahead of the others, so that the endpoint's cache has it for them.

Requests at the same time do not find what another one computes. With 32 requests in flight, a hosted provider would
charge 32 times for the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from flightllm.engines.openai.cache_observer import CacheObserver

_MOST_WAIT: Final = 10.0
"""Seconds that a prompt waits at most: the start is in the cache long before a long answer ends."""


class Leaders:
    """The common starts that are on their way for the first time. Only one event loop uses it.

    `rest` gets how many more rows wait here, or fewer if negative. A row waits for `seconds` at most.
    """

    def __init__(
        self, cache: CacheObserver, rest: Callable[[int], None] = lambda _: None, seconds: float = _MOST_WAIT
    ) -> None:
        self._cache = cache
        self._rest = rest
        self.seconds = seconds
        self._leading: dict[str, asyncio.Future[bool]] = {}
        """For each start, whether its leader brought it into the cache."""

    @asynccontextmanager
    async def turn(self, written: Callable[[], str], rows: int = 1) -> AsyncIterator[Callable[[], None]]:
        """Wait while another prompt brings the start of this one into the endpoint's cache; or bring it.

        `written` returns the prompt as it is sent. An endpoint without turns never calls it. `rows` prompts are sent
        together. The caller calls the yielded function once the start is in the cache.
        """
        length = self._cache.lead_characters
        text = written() if length else ""
        start = text[:length]
        if not length or len(text) < length or not await self._leads(text, start, rows):
            yield lambda: None
            return
        led = self._leading[start] = asyncio.get_running_loop().create_future()
        try:
            yield partial(self._end, start, led, arrived=True)
        finally:
            self._end(start, led, arrived=False)

    async def _leads(self, text: str, start: str, rows: int) -> bool:
        """Wait until the start is in the cache, or too long; return whether this prompt must bring it.

        If a leader fails, the first of the prompts that wait takes its place, and the others wait for that one.
        """
        other: asyncio.Future[bool] | None = None
        try:
            async with asyncio.timeout(self.seconds):
                while self._cache.shared(text) < len(start):
                    if (other := self._leading.get(start)) is None:
                        return True
                    if await self._rested(other, rows):
                        return False
        except TimeoutError:
            if self._leading.get(start) is other:  # a newer leader stays
                self._leading.pop(start, None)
        return False

    async def _rested(self, other: asyncio.Future[bool], rows: int) -> bool:
        self._rest(rows)
        try:
            return await asyncio.shield(other)
        finally:
            self._rest(-rows)

    def _end(self, start: str, led: asyncio.Future[bool], *, arrived: bool) -> None:
        """Tell the prompts that wait how it ended. Idempotent."""
        if not led.done():
            led.set_result(arrived)
        if self._leading.get(start) is led:
            del self._leading[start]
