"""Policies for vLLM's cache of KV chunks in CPU memory: `cache_policy` and `cache_policy_module_path` of its connector.

    "kv_connector": "OffloadingConnector", "kv_connector_extra_config": {
        "cache_policy": "PlannedCachePolicy", "cache_policy_module_path": "flightllm.kvcache.eviction.offload"}

Written for vLLM 0.32 and 0.33. A hint comes with a request's `kv_transfer_params`, as it does in its `extra_args`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus

from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.guarded import Guarded
from flightllm.kvcache.eviction.hint import read_hint


class _PolicyCache(CachePolicy):
    """Chunks by key; those that nobody reads or writes go by the policy."""

    name = ""
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self._chunks: dict[Hashable, ChunkStatus] = {}
        self._idle = self._start()

    def _start(self) -> Guarded[Hashable]:
        return Guarded(create_policy(self.name, self.cache_capacity))

    def get(self, key: Any) -> ChunkStatus | None:
        """Return a chunk, if it is there."""
        return self._chunks.get(key)

    def insert(self, key: Any, chunk: ChunkStatus, *further: object) -> None:
        """Put a chunk in; from vLLM 0.33 on the request comes with it."""
        del further
        self._chunks[key] = chunk
        if chunk.ref_cnt == 0:
            self.mark_evictable(key)

    def remove(self, key: Any) -> None:
        """Take a chunk out whose storing failed."""
        del self._chunks[key]
        self.mark_non_evictable(key)

    def touch(self, keys: Iterable[Any], req_context: Any) -> None:
        """Take note that a request uses chunks."""
        self._use([list(keys)], req_context)

    def on_store_miss(self, keys: Iterable[Any], req_context: Any) -> None:
        """Learn nothing: they are told of once the request ends."""

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[Any]],
        insertion_only_keys: set[Any],
        reused_keys: set[Any],
        req_context: Any,
    ) -> None:
        """Take note of all that a request used."""
        del insertion_only_keys, reused_keys
        self._use(key_groups, req_context)

    def mark_evictable(self, key: Any) -> None:
        """Count a chunk among those that may go."""
        self._idle.free(key, self.clock())

    def mark_non_evictable(self, key: Any) -> None:
        """Count a chunk no longer among those that may go."""
        self._idle.hold(key)

    def evict(self, n: int, protected: set[Any]) -> list[tuple[Any, ChunkStatus]] | None:
        """Take out chunks to make room, none of those protected; None, and all stay, where there are not as many."""
        if n > len(self._idle) - sum(key in self._idle for key in protected):
            return None
        passed, gone = list[Hashable](), list[tuple[Any, ChunkStatus]]()
        while len(gone) < n:
            key = self._idle.evict(self.clock())
            if key in protected:
                passed.append(key)
            else:
                gone.append((key, self._chunks.pop(key)))
        for key in passed:  # as young as others that come idle now: whose request makes room is using them
            self.mark_evictable(key)
        return gone

    def clear(self) -> None:
        """Forget all chunks."""
        self._chunks.clear()
        self._idle = self._start()

    def _use(self, groups: Sequence[Sequence[Any]], context: Any) -> None:
        """Tell of a request, and rank those of its chunks anew that may go: they are told of after they came idle."""
        hint = read_hint(context.kv_transfer_params)
        keys = [key for group in groups for key in group]
        ends = {key: context.get_offload_key_position(key) for key in keys}
        if None not in ends.values():
            keys.sort(key=ends.__getitem__)
        ahead = None
        if hint.ahead is not None and None not in ends.values():
            ahead = sum(end <= hint.ahead for end in ends.values())
        use = Use(keys, hint.site, ahead, hint.query, hint.number)
        self._idle.use(use, self.clock())
        for key in reversed(keys):
            if key in self._idle:
                self.mark_evictable(key)


class WorkloadAwareCachePolicy(_PolicyCache):
    """See `flightllm.kvcache.eviction.workload_aware`."""

    name = "workload_aware"


class PlannedCachePolicy(_PolicyCache):
    """See `flightllm.kvcache.eviction.planned`; of what waits vLLM tells this cache nothing."""

    name = "planned"
