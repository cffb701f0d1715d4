"""A plug-in of vLLM's (entry point `vllm.general_plugins`): the blocks of its KV cache go in the order of a policy.

Chosen by `additional_config={"flightllm_kv_eviction": "planned"}`; without that nothing is changed. vLLM has no option
for this, so the scheduler that is asked for it gets another free block queue, and tells it of the requests that come
and end. In a version of vLLM that is not known, or is put together otherwise, its own order stays, which is logged;
vLLM starts and goes on whatever fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

import structlog

from flightllm.common.parent_process import end_with_parent
from flightllm.config import LogConfig
from flightllm.errors import ConfigError
from flightllm.kvcache.eviction import OFF, create_policy
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.free_blocks import FreeBlocks
from flightllm.kvcache.eviction.hint import EVICTION, read_hint
from flightllm.log import configure_logging

KNOWN_VERSIONS: Final = ("0.32.", "0.33.")

_MARK: Final = "flightllm_kv_eviction"
"""The attribute of a scheduler class that looks for the option already."""
_FORESEEING: Final = "SimpleCPUOffloadConnector"
_Groups = list[tuple[int, int]]
"""Groups of a KV cache: the number of each, and how many tokens its blocks have."""

_log = structlog.get_logger(__name__)


def register() -> None:
    """Have schedulers look for the option; called by vLLM in each of its processes, maybe more than once.

    A process that belongs to a server's engine also ends with the server.
    """
    end_with_parent()
    try:
        from vllm.v1.core.sched.scheduler import Scheduler

        if not hasattr(Scheduler, _MARK):
            _extend(Scheduler)
    except Exception as error:  # noqa: BLE001 - vLLM starts without this too, above all where nobody asked for it
        _off(repr(error))


def _extend(scheduler_class: Any) -> None:
    start = scheduler_class.__init__

    @wraps(start)
    def started(scheduler: Any, *args: Any, **kwargs: Any) -> None:
        start(scheduler, *args, **kwargs)
        options = getattr(getattr(scheduler, "vllm_config", None), "additional_config", None)
        name = options.get(EVICTION) if isinstance(options, dict) else None
        if name and name != OFF:
            order(scheduler, str(name))

    scheduler_class.__init__ = started
    setattr(scheduler_class, _MARK, True)


def order(scheduler: Any, name: str) -> None:
    """Give a scheduler that has just been made the policy of this name.

    Raises:
        ConfigError: there is no such policy.
    """
    try:
        reason = _unfit(scheduler)
        if not reason:
            Requests(scheduler, name)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        reason = repr(error)
    if reason:
        _off(reason)
    else:
        _configure_log()
        _log.info("kv_eviction", policy=name)


def _off(reason: str) -> None:
    _configure_log()
    _log.warning("kv_eviction_off", reason=reason, instead="vLLM's own order")


def _configure_log() -> None:
    if not structlog.is_configured():  # in a process of vLLM's own
        configure_logging(LogConfig())


def _unfit(scheduler: Any) -> str:
    """Return why a scheduler cannot be given a policy; nothing where it can."""
    import vllm

    if not vllm.__version__.startswith(KNOWN_VERSIONS):
        return f"vLLM {vllm.__version__} is not known; {' and '.join(f'{one}x' for one in KNOWN_VERSIONS)} are"
    try:
        from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_block_hashes
        from vllm.v1.kv_cache_interface import FullAttentionSpec

        queue = scheduler.kv_cache_manager.block_pool.free_block_queue
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        needed = (
            scheduler.add_request,
            scheduler._free_request_blocks,  # noqa: SLF001 - no public way tells that a request's blocks come free
            scheduler.requests,
            scheduler.hash_block_size,
            queue.get_all_free_blocks,
            *((one.kv_cache_group_id, one.block_size, one.block_pool, one.kv_cache_spec) for one in managers),
        )
    except (ImportError, AttributeError) as error:
        return f"vLLM is put together otherwise: {error}"
    del make_block_hash_with_group_id, resolve_block_hashes, FullAttentionSpec, needed
    further = sorted(name for name in {*dir(type(queue))} - {*dir(FreeBlocks)} if not name.startswith("_"))
    if further:
        return f"vLLM's free block queue does more: {', '.join(further)}"
    if not scheduler.cache_config.enable_prefix_caching:
        return "its prefix cache is off"
    transfer = scheduler.vllm_config.kv_transfer_config
    if transfer is not None and _foresees(transfer.kv_connector, transfer.kv_connector_extra_config):
        return f"{_FORESEEING} with lazy_offload goes by the order in which vLLM itself evicts"
    return ""


def _foresees(connector: object, options: Mapping[str, Any]) -> bool:
    """Tell whether a connector, or one within it, looks up which blocks go next."""
    if connector == _FORESEEING:
        return bool(options.get("lazy_offload"))
    within = options.get("connectors") or ()
    return any(_foresees(one.get("kv_connector"), one.get("kv_connector_extra_config") or {}) for one in within)


class Requests:
    """Tells the free block queue of a scheduler which requests wait, and what they used when they end.

    A request waits until it ends, as it may be computed again. Only what it keeps until then is said to be needed: full
    attention's blocks. Those of sliding windows, and others, come free behind it while it runs; of these the policy
    learns at its end alone. Where anything fails here LRU goes on, and nothing more is told.
    """

    def __init__(self, scheduler: Any, name: str) -> None:
        from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_block_hashes
        from vllm.v1.kv_cache_interface import FullAttentionSpec

        self._content, self._hashes = make_block_hash_with_group_id, resolve_block_hashes
        self._scheduler = scheduler
        pool = scheduler.kv_cache_manager.block_pool
        managers = [
            one for one in scheduler.kv_cache_manager.coordinator.single_type_managers if one.block_pool is pool
        ]
        self._groups: _Groups = [(one.kv_cache_group_id, one.block_size) for one in managers]
        self._lasting: _Groups = [
            (one.kv_cache_group_id, one.block_size)
            for one in managers
            if isinstance(one.kv_cache_spec, FullAttentionSpec)
        ]
        policy = create_policy(name, pool.num_gpu_blocks)
        self._free: FreeBlocks[Any] = FreeBlocks(pool.free_block_queue.get_all_free_blocks(), policy)
        self._waiting: dict[str, Use[Hashable]] = {}
        self._failed = False
        self._add, self._release = scheduler.add_request, scheduler._free_request_blocks  # noqa: SLF001 - see `_unfit`
        self._reset = pool.reset_prefix_cache
        pool.free_block_queue = self._free
        pool.reset_prefix_cache = self.reset
        scheduler.add_request, scheduler._free_request_blocks = self.add, self.release  # noqa: SLF001

    def add(self, request: Any) -> None:
        """Add a request to the scheduler."""
        self._add(request)
        self._tell(self._begin, request)

    def release(self, request: Any) -> None:
        """Free the blocks of a request that has ended, or is to be computed again later."""
        self._tell(self._end, request)
        self._release(request)

    def reset(self) -> bool:
        """Empty the cache; return whether that was possible."""
        done: bool = self._reset()
        self._free.forget()
        return done

    def _tell(self, told: Callable[[Any], None], request: Any) -> None:
        if self._failed:
            return
        try:
            told(request)
        except Exception as error:  # noqa: BLE001 - this runs in the scheduler's thread, which goes on
            self._failed = True
            self._waiting.clear()
            self._free.fail(error)

    def _begin(self, request: Any) -> None:
        if self._scheduler.requests.get(request.request_id) is not request:
            return  # it brings another one, which streams its input, more of that, or the end
        use = self._use(request, self._lasting)
        self._waiting[request.request_id] = use
        self._free.queue(use)

    def _end(self, request: Any) -> None:
        if not request.is_finished():
            return
        waited = self._waiting.pop(request.request_id, None)
        if waited is None:
            return
        self._free.cancel(waited)
        if request.num_computed_tokens:
            self._free.use(self._use(request, self._groups, waited.keys))

    def _use(self, request: Any, groups: _Groups, known: Sequence[Hashable] = ()) -> Use[Hashable]:
        """Return what a request uses of some groups, of whose contents the first are known where it is a single one."""
        parameters = request.sampling_params
        hint = read_hint(parameters.extra_args if parameters is not None else None)
        keys = self._contents(request, groups, known)
        ahead = None
        if hint.ahead is not None:
            ahead = min(len(keys), sum(hint.ahead // tokens for _, tokens in groups))
        return Use(keys, hint.site, ahead, hint.query, hint.number, request.priority)

    def _contents(self, request: Any, groups: _Groups, known: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the contents of a request's full blocks, in order; its answer's are added to those of its prompt."""
        hash_tokens = self._scheduler.hash_block_size
        if len(groups) == 1:
            [(group, tokens)] = groups
            hashes = self._hashes(request.block_hashes, hash_tokens, tokens)
            return [*known, *(self._content(hashes[place], group) for place in range(len(known), len(hashes)))]
        blocks = [
            ((place + 1) * tokens, self._content(block_hash, group))
            for group, tokens in groups
            for place, block_hash in enumerate(self._hashes(request.block_hashes, hash_tokens, tokens))
        ]
        return [content for _, content in sorted(blocks)]
