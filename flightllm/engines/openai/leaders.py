"""Send one prompt of a long common start ahead of the others, so that the endpoint's cache has it for them.

Requests at the same time do not find what another one computes. With 32 requests in flight, a hosted provider would
charge 32 times for the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from flightllm.engines.openai.cache_observer import CacheObserver

_MOST_WAIT: Final = 10.0
"""Seconds that a prompt waits at most: the start is in the cache long before a long answer ends."""


class Leaders:
    """The common starts that are on their way for the first time. Only one event loop uses it."""

    def __init__(self, cache: CacheObserver) -> None:
        self._cache = cache
        self._leading: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, text: str) -> AsyncIterator[None]:
        """Wait while another prompt brings the start of this one into the endpoint's cache; or bring it."""
        length = self._cache.cache.lead_characters
        start = text[:length]
        if not length or len(text) < length or self._cache.shared(text) >= length:
            yield
            return
        if (other := self._leading.get(start)) is not None:
            try:
                await asyncio.wait_for(other.wait(), _MOST_WAIT)
            except TimeoutError:
                self._leading.pop(start, None)
            yield
            return
        self._leading[start] = ended = asyncio.Event()
        try:
            yield
        finally:
            ended.set()
            if self._leading.get(start) is ended:
                del self._leading[start]
