"""A policy inside an engine, which must keep running if the policy fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec

import structlog

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.lru import Lru

_log = structlog.get_logger(__name__)
_Told = ParamSpec("_Told")


class Guarded(EvictionPolicy[Key]):
    """A wrapper of a policy: LRU replaces the policy, with a log event, once it raises or evicts a wrong block.

    A wrong block is one that is not evictable.
    """

    def __init__(self, policy: EvictionPolicy[Key]) -> None:
        self._policy = policy
        self._free: dict[Key, None] = {}
        """The evictable blocks, in the order in which they were freed."""

    def queue(self, use: Use[Key], now: float) -> None:
        """Record a waiting prompt; see `EvictionPolicy.queue`."""
        self._tell(self._policy.queue, use, now)

    def cancel(self, use: Use[Key], now: float) -> None:
        """Record that a prompt no longer waits; see `EvictionPolicy.cancel`."""
        self._tell(self._policy.cancel, use, now)

    def use(self, use: Use[Key], now: float) -> None:
        """Record the blocks that a prompt used; see `EvictionPolicy.use`."""
        self._tell(self._policy.use, use, now)

    def free(self, key: Key, now: float) -> None:
        """Make a block evictable; see `EvictionPolicy.free`."""
        if key in self._free:
            self.hold(key)
        self._free[key] = None
        self._tell(self._policy.free, key, now)

    def hold(self, key: Key) -> None:
        """Make a block not evictable; see `EvictionPolicy.hold`."""
        if key in self._free:
            del self._free[key]
            self._tell(self._policy.hold, key)

    def evict(self, now: float) -> Key:
        """Return the next block to evict; see `EvictionPolicy.evict`."""
        if not self._free:
            raise KeyError("no block is evictable")
        try:
            key = self._policy.evict(now)
            del self._free[key]
        except Exception as error:  # noqa: BLE001 - no failure of a policy must stop the engine
            self.fail(error)
            key = self._policy.evict(now)
            del self._free[key]
        return key

    def fail(self, error: Exception) -> None:
        """Continue with LRU."""
        _log.error("kv_eviction_failed", policy=type(self._policy).__name__, reason=repr(error), instead="lru")
        self._policy = Lru()
        for key in self._free:
            self._policy.free(key, 0.0)

    def _tell(self, told: Callable[_Told, None], *args: _Told.args, **kwargs: _Told.kwargs) -> None:
        try:
            told(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(error)

    def __contains__(self, key: object) -> bool:
        return key in self._free

    def __len__(self) -> int:
        return len(self._free)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the evictable blocks, in the order in which they were freed."""
        return iter(self._free)
