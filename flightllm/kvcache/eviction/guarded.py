"""A policy within an engine, which goes on whatever the policy does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec

import structlog

from flightllm.kvcache.eviction.base import Key, Policy, Use
from flightllm.kvcache.eviction.lru import Lru

_log = structlog.get_logger(__name__)
_Told = ParamSpec("_Told")


class Guarded(Policy[Key]):
    """Another policy; from when it raises, or names a block that may not go, LRU in its place, which is logged."""

    def __init__(self, policy: Policy[Key]) -> None:
        self._policy = policy
        self._free: dict[Key, None] = {}
        """Those that may go, in the order in which they came free."""

    def queue(self, use: Use[Key], now: float) -> None:
        """Take note of a prompt that waits; see `Policy.queue`."""
        self._tell(self._policy.queue, use, now)

    def cancel(self, use: Use[Key], now: float) -> None:
        """Take note that a prompt waits no more; see `Policy.cancel`."""
        self._tell(self._policy.cancel, use, now)

    def use(self, use: Use[Key], now: float) -> None:
        """Take note of what a prompt used; see `Policy.use`."""
        self._tell(self._policy.use, use, now)

    def free(self, key: Key, now: float) -> None:
        """Count a block among those that may go; see `Policy.free`."""
        if key in self._free:
            self.hold(key)
        self._free[key] = None
        self._tell(self._policy.free, key, now)

    def hold(self, key: Key) -> None:
        """Count it among them no longer; see `Policy.hold`."""
        if key in self._free:
            del self._free[key]
            self._tell(self._policy.hold, key)

    def evict(self, now: float) -> Key:
        """Return the block to go next; see `Policy.evict`."""
        if not self._free:
            raise KeyError("no block may go")
        try:
            key = self._policy.evict(now)
            del self._free[key]
        except Exception as error:  # noqa: BLE001 - whatever a policy does, the engine goes on
            self.fail(error)
            key = self._policy.evict(now)
            del self._free[key]
        return key

    def fail(self, error: Exception) -> None:
        """Go on by LRU."""
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
        """Iterate over those that may go, in the order in which they came free."""
        return iter(self._free)
