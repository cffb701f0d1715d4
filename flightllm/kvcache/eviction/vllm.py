"""A plug-in of vLLM's (entry point `vllm.general_plugins`): the blocks of its KV cache go in the order of a policy.

Chosen by `additional_config={"flightllm_kv_eviction": "planned"}`; without that nothing is changed. vLLM has no option
for this, so the scheduler that is asked for it gets another free block queue, and tells it of the requests that come
and end. In a version of vLLM that is not known, or is put together otherwise, its own order stays, which is logged.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import structlog

from flightllm.config import LogConfig
from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.free_blocks import FreeBlocks
from flightllm.kvcache.eviction.hint import EVICTION, ReuseHint, read_hint
from flightllm.log import configure_logging

KNOWN_VERSIONS: Final = ("0.32.", "0.33.")

_log = structlog.get_logger(__name__)


def register() -> None:
    """Have schedulers look for the option; called by vLLM in each of its processes, maybe more than once."""
    from vllm.v1.core.sched.scheduler import Scheduler

    start = Scheduler.__init__
    if hasattr(start, "__wrapped__"):
        return

    @wraps(start)
    def started(scheduler: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        start(scheduler, vllm_config, *args, **kwargs)
        options = vllm_config.additional_config
        name = options.get(EVICTION) if isinstance(options, dict) else None
        if name:
            order(scheduler, str(name))

    Scheduler.__init__ = started


def order(scheduler: Any, name: str) -> None:
    """Give a scheduler that has just been made the policy of this name.

    Raises:
        ConfigError: there is no such policy.
    """
    if not structlog.is_configured():  # in a process of vLLM's own
        configure_logging(LogConfig())
    reason = _unfit(scheduler)
    if reason:
        _log.warning("kv_eviction_off", reason=reason, instead="vLLM's own order")
        return
    Requests(scheduler, name)
    _log.info("kv_eviction", policy=name)


def _unfit(scheduler: Any) -> str:
    """Return why a scheduler cannot be given a policy; nothing where it can."""
    import vllm

    if not vllm.__version__.startswith(KNOWN_VERSIONS):
        return f"vLLM {vllm.__version__} is not known; {' and '.join(f'{one}x' for one in KNOWN_VERSIONS)} are"
    try:
        from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_block_hashes

        needed = (
            scheduler.add_request,
            scheduler._free_request_blocks,  # noqa: SLF001 - no public way tells that a request's blocks come free
            scheduler.hash_block_size,
            scheduler.kv_cache_manager.coordinator.single_type_managers,
            scheduler.kv_cache_manager.block_pool.free_block_queue.get_all_free_blocks,
        )
    except (ImportError, AttributeError) as error:
        return f"vLLM is put together otherwise: {error}"
    del make_block_hash_with_group_id, resolve_block_hashes, needed
    return "" if scheduler.cache_config.enable_prefix_caching else "its prefix cache is off"


class Requests:
    """Tells the free block queue of a scheduler which requests wait, and what they used when they end."""

    def __init__(self, scheduler: Any, name: str) -> None:
        from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_block_hashes

        self._content, self._hashes = make_block_hash_with_group_id, resolve_block_hashes
        self._hash_tokens: int = scheduler.hash_block_size
        pool = scheduler.kv_cache_manager.block_pool
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        self._groups: list[tuple[int, int]] = [
            (one.kv_cache_group_id, one.block_size) for one in managers if one.block_pool is pool
        ]
        policy = create_policy(name, pool.num_gpu_blocks)
        self._free: FreeBlocks[Any] = FreeBlocks(pool.free_block_queue.get_all_free_blocks(), policy)
        pool.free_block_queue = self._free
        self._waiting: dict[str, Use[Hashable]] = {}
        self._add, self._release = scheduler.add_request, scheduler._free_request_blocks  # noqa: SLF001 - see `_unfit`
        scheduler.add_request, scheduler._free_request_blocks = self.add, self.release  # noqa: SLF001

    def add(self, request: Any) -> None:
        """Add a request to the scheduler."""
        self._add(request)
        if request.request_id in self._waiting:
            return
        parameters = request.sampling_params
        hint = read_hint(parameters.extra_args if parameters is not None else None)
        keys = self._contents(request)
        use = Use(keys, hint.site, self._ahead(hint, len(keys)), hint.query, hint.number, request.priority)
        self._waiting[request.request_id] = use
        self._free.queue(use)

    def release(self, request: Any) -> None:
        """Free the blocks of a request that has ended, or is to be computed again later."""
        waited = self._waiting.get(request.request_id)
        if waited is not None and request.is_finished():
            del self._waiting[request.request_id]
            self._free.cancel(waited)
            if request.num_computed_tokens:
                self._free.use(replace(waited, keys=self._contents(request, waited.keys)))
        self._release(request)

    def _contents(self, request: Any, known: Sequence[Hashable] = ()) -> Sequence[Hashable]:
        """Return the contents of a request's full blocks, in order; its answer's are added to those of its prompt."""
        if len(self._groups) == 1:
            [(group, tokens)] = self._groups
            hashes = self._hashes(request.block_hashes, self._hash_tokens, tokens)
            return [*known, *(self._content(hashes[place], group) for place in range(len(known), len(hashes)))]
        blocks = [
            ((place + 1) * tokens, self._content(block_hash, group))
            for group, tokens in self._groups
            for place, block_hash in enumerate(self._hashes(request.block_hashes, self._hash_tokens, tokens))
        ]
        return [content for _, content in sorted(blocks)]

    def _ahead(self, hint: ReuseHint, count: int) -> int | None:
        """Return how many of a prompt's blocks later ones have too."""
        if hint.ahead is None:
            return None
        return min(count, sum(hint.ahead // tokens for _, tokens in self._groups))
