"""Policies for vLLM's cache of KV chunks in CPU memory: `cache_policy` and `cache_policy_module_path` of its connector.

    "kv_connector": "OffloadingConnector", "kv_connector_extra_config": {
        "cache_policy": "PlannedCachePolicy", "cache_policy_module_path": "flightllm.kvcache.eviction.offload"}

Where this vLLM lacks something that they need (see `vllm_names`), the two names stand for vLLM's own LRU. A request
carries its hint in `kv_transfer_params`, as it does in `extra_args`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import structlog

from flightllm.config import LogConfig
from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.guarded import Guarded
from flightllm.kvcache.eviction.hint import read_hint
from flightllm.kvcache.vllm_names import unfit, vllm_version
from flightllm.log import configure_logging

try:
    from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus
    from vllm.v1.kv_offload.cpu.policies.lru import LRUCachePolicy
except ImportError as error:
    raise ImportError(f"the eviction policies cannot work here: {unfit('offload')}") from error

_log = structlog.get_logger(__name__)


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


class _WorkloadAware(_PolicyCache):
    """See `flightllm.kvcache.eviction.workload_aware`."""

    name = "workload_aware"


class _Planned(_PolicyCache):
    """See `flightllm.kvcache.eviction.planned`; vLLM does not report waiting requests to this cache."""

    name = "planned"


def _or_lru(policy: type[_PolicyCache]) -> Any:
    """Return the policy, or vLLM's own LRU if the policy does not fit this vLLM."""
    reason = unfit("offload")
    if not reason and (further := sorted(policy.__abstractmethods__)):
        reason = f"vLLM {vllm_version()} calls unknown methods: {', '.join(further)}"
    if not reason:
        return policy
    if not structlog.is_configured():  # in a separate process of vLLM
        configure_logging(LogConfig())
    _log.warning("kv_eviction_off", policy=policy.name, reason=reason, instead="vLLM's own LRU")
    return LRUCachePolicy


WorkloadAwareCachePolicy = _or_lru(_WorkloadAware)
PlannedCachePolicy = _or_lru(_Planned)
