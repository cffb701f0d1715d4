"""Send one prompt of a long common start ahead of the others, so that the endpoint's cache has it for them.

Requests at the same time do not find what another one computes. With 32 requests in flight, a hosted provider would
charge 32 times for the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from flightllm.engines.openai.cache_observer import CacheObserver
from flightllm.engines.prompt_parts import PromptParts

_MOST_WAIT: Final = 10.0
"""Seconds that a prompt waits at most: the start is in the cache long before a long answer ends."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of a prompt to leave."""

    arrived: Callable[[], None] = lambda: None
    """Call it once the starts are in the cache."""
    text: str = ""
    starts: tuple[int, ...] = ()
    """The lengths of the starts of `text` that the cache has, or that this prompt brings."""


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
    async def turn(self, parts: Callable[[], PromptParts], rows: int = 1, *, waits: bool = True) -> AsyncIterator[Turn]:
        """Wait while another prompt brings a start of this one into the endpoint's cache; or bring it.

        `parts` returns the prompt as it is sent. An endpoint without turns never calls it. `rows` prompts are sent
        together. A prompt that does not wait, or has waited too long, leaves without the starts of others.
        """
        if not self._cache.leads:
            yield Turn()
            return
        found = parts()
        text, starts = found.text, self._cache.starts(found)
        new, arrived = await self._new(text, starts, rows, waits=waits) if starts else ([], set())
        led = asyncio.get_running_loop().create_future()
        self._leading |= dict.fromkeys(new, led)
        held = arrived.union(new)
        kept = tuple(end for end in starts if text[:end] in held or self._cache.knows(text, end))
        try:
            yield Turn(partial(self._end, new, led, arrived=True), text, kept)
        finally:
            self._end(new, led, arrived=False)

    async def _new(self, text: str, starts: Sequence[int], rows: int, *, waits: bool) -> tuple[list[str], set[str]]:
        """Wait until no other prompt brings these starts, or too long.

        Return the starts that this prompt must bring, and those that others brought meanwhile. If a leader fails, the
        first of the prompts that wait takes its place, and the others wait for that one.
        """
        arrived: set[str] = set()
        other: asyncio.Future[bool] | None = None

        def missing() -> list[str]:
            return [
                start for end in starts if (start := text[:end]) not in arrived and not self._cache.knows(text, end)
            ]

        try:
            async with asyncio.timeout(self.seconds if waits else 0):
                while led := [start for start in missing() if start in self._leading]:
                    if not waits:
                        return [start for start in missing() if start not in self._leading], arrived
                    other = self._leading[led[0]]
                    together = [start for start in led if self._leading[start] is other]
                    if await self._rested(other, rows) and not self._cache.units:
                        arrived.update(together)
        except TimeoutError:
            for start in [start for start, one in self._leading.items() if one is other]:  # a newer leader stays
                del self._leading[start]
            return [], arrived
        return missing(), arrived

    async def _rested(self, other: asyncio.Future[bool], rows: int) -> bool:
        self._rest(rows)
        try:
            return await asyncio.shield(other)
        finally:
            self._rest(-rows)

    def _end(self, starts: Sequence[str], led: asyncio.Future[bool], *, arrived: bool) -> None:
        """Tell the prompts that wait how it ended. Idempotent."""
        if not led.done():
            led.set_result(arrived)
        for start in starts:
            if self._leading.get(start) is led:
                del self._leading[start]
