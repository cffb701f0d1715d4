"""Policies for vLLM's cache of KV chunks in CPU memory: `cache_policy` and `cache_policy_module_path` of its connector.

    "kv_connector": "OffloadingConnector", "kv_connector_extra_config": {
        "cache_policy": "PlannedCachePolicy", "cache_policy_module_path": "flightllm.kvcache.eviction.offload"}

Written for vLLM 0.32 and 0.33. A request carries its hint in `kv_transfer_params`, as it does in `extra_args`.
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
    """Chunks by key; the policy orders the eviction of chunks that are neither read nor written."""

    name = ""
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self._chunks: dict[Hashable, ChunkStatus] = {}
        self._idle = self._start()

    def _start(self) -> Guarded[Hashable]:
        return Guarded(create_policy(self.name, self.cache_capacity))

    def get(self, key: Any) -> ChunkStatus | None:
        """Return a chunk, or None if it is not cached."""
        return self._chunks.get(key)

    def insert(self, key: Any, chunk: ChunkStatus, *further: object) -> None:
        """Add a chunk; vLLM 0.33 and later also pass the request."""
        del further
        self._chunks[key] = chunk
        if chunk.ref_cnt == 0:
            self.mark_evictable(key)

    def remove(self, key: Any) -> None:
        """Remove a chunk whose storing failed."""
        del self._chunks[key]
        self.mark_non_evictable(key)

    def touch(self, keys: Iterable[Any], req_context: Any) -> None:
        """Record that a request uses chunks."""
        self._use([list(keys)], req_context)

    def on_store_miss(self, keys: Iterable[Any], req_context: Any) -> None:
        """Do nothing: the chunks are reported when the request ends."""

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[Any]],
        insertion_only_keys: set[Any],
        reused_keys: set[Any],
        req_context: Any,
    ) -> None:
        """Record all chunks that a request used."""
        del insertion_only_keys, reused_keys
        self._use(key_groups, req_context)

    def mark_evictable(self, key: Any) -> None:
        """Make a chunk evictable."""
        self._idle.free(key, self.clock())

    def mark_non_evictable(self, key: Any) -> None:
        """Make a chunk not evictable."""
        self._idle.hold(key)

    def evict(self, n: int, protected: set[Any]) -> list[tuple[Any, ChunkStatus]] | None:
        """Remove `n` chunks that are not protected; return None and remove nothing if there are fewer."""
        if n > len(self._idle) - sum(key in self._idle for key in protected):
            return None
        passed, gone = list[Hashable](), list[tuple[Any, ChunkStatus]]()
        while len(gone) < n:
            key = self._idle.evict(self.clock())
            if key in protected:
                passed.append(key)
            else:
                gone.append((key, self._chunks.pop(key)))
        for key in passed:  # the request that makes room uses these chunks, so they count as just freed
            self.mark_evictable(key)
        return gone

    def clear(self) -> None:
        """Forget all chunks."""
        self._chunks.clear()
        self._idle = self._start()

    def _use(self, groups: Sequence[Sequence[Any]], context: Any) -> None:
        """Report a request, and rank its evictable chunks again: vLLM reports them after it made them evictable."""
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
    """See `flightllm.kvcache.eviction.planned`; vLLM does not report waiting requests to this cache."""

    name = "planned"
