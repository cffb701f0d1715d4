"""A vLLM plug-in (entry point `vllm.general_plugins`) that evicts blocks of the KV cache in the order of a policy.

`additional_config={"flightllm_kv_eviction": "planned"}` chooses the policy; without it the plug-in changes nothing.
vLLM has no option for eviction policies. So the plug-in gives the scheduler another free block queue, and reports
starting and ending requests to it. In an unknown or changed version of vLLM, vLLM's own order stays, and a log event
reports this (see `vllm_names`). No failure here stops vLLM.
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
from flightllm.kvcache.eviction.hint import EVICTION, MEMORY, read_hint
from flightllm.kvcache.vllm_names import is_known, known_versions, unfit, vllm_version
from flightllm.log import configure_logging

_MARK: Final = "flightllm_kv_eviction"
"""The attribute that marks a scheduler class as already extended."""
_FORESEEING: Final = "SimpleCPUOffloadConnector"
_Groups = list[tuple[int, int]]
"""Groups of a KV cache: each group's number and the tokens of its blocks."""

_log = structlog.get_logger(__name__)


def register() -> None:
    """Make schedulers look for the option; vLLM calls this in each of its processes, possibly several times.

    A process of a server's engine also ends with the server.
    """
    end_with_parent()
    try:
        from vllm.v1.core.sched.scheduler import Scheduler

        unfit("eviction")  # looks before anything is changed; `order` reports it, if the option is set
        if not hasattr(Scheduler, _MARK):
            _extend(Scheduler)
    except Exception as error:  # noqa: BLE001 - vLLM must start without this too, above all if the option is not set
        _off(repr(error))


def _extend(scheduler_class: Any) -> None:
    start = scheduler_class.__init__

    @wraps(start)
    def started(scheduler: Any, *args: Any, **kwargs: Any) -> None:
        start(scheduler, *args, **kwargs)
        given = getattr(getattr(scheduler, "vllm_config", None), "additional_config", None)
        options = given if isinstance(given, dict) else {}
        name = options.get(EVICTION)
        if name and name != OFF:
            order(scheduler, str(name), str(options.get(MEMORY) or ""))

    scheduler_class.__init__ = started
    setattr(scheduler_class, _MARK, True)


def order(scheduler: Any, name: str, memory: str = "") -> None:
    """Give a new scheduler the policy of this name; `memory` is the path of a file for what the policy learns.

    Raises:
        ConfigError: the name is unknown.
    """
    try:
        reason = _unfit(scheduler)
        if not reason:
            WaitingRequests(scheduler, name, memory)
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
    if not structlog.is_configured():  # in a separate process of vLLM
        configure_logging(LogConfig())


def _unfit(scheduler: Any) -> str:
    """Return the reason why a scheduler cannot use a policy; empty if it can."""
    if not is_known():
        return f"vLLM {vllm_version()} is unknown; known versions: {known_versions()}"
    if reason := unfit("eviction"):
        return reason
    try:
        from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_block_hashes
        from vllm.v1.kv_cache_interface import FullAttentionSpec

        queue = scheduler.kv_cache_manager.block_pool.free_block_queue
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        needed = (
            scheduler.add_request,
            scheduler._free_request_blocks,  # noqa: SLF001 - no public hook reports that a request's blocks are freed
            scheduler.requests,
            scheduler.hash_block_size,
            queue.get_all_free_blocks,
            *((one.kv_cache_group_id, one.block_size, one.block_pool, one.kv_cache_spec) for one in managers),
        )
    except (ImportError, AttributeError) as error:
        return f"vLLM {vllm_version()} has another internal structure: {error}"
    del make_block_hash_with_group_id, resolve_block_hashes, FullAttentionSpec, needed
    further = sorted(name for name in {*dir(type(queue))} - {*dir(FreeBlocks)} if not name.startswith("_"))
    if further:
        return f"vLLM's free block queue has unknown methods: {', '.join(further)}"
    if not scheduler.cache_config.enable_prefix_caching:
        return "its prefix cache is off"
    transfer = scheduler.vllm_config.kv_transfer_config
    if transfer is not None and _foresees(transfer.kv_connector, transfer.kv_connector_extra_config):
        return f"{_FORESEEING} with lazy_offload relies on vLLM's own order of eviction"
    return ""


def _foresees(connector: object, options: Mapping[str, Any]) -> bool:
    """Return whether a connector, or a connector inside it, looks up the next blocks to evict."""
    if connector == _FORESEEING:
        return bool(options.get("lazy_offload"))
    within = options.get("connectors") or ()
    return any(_foresees(one.get("kv_connector"), one.get("kv_connector_extra_config") or {}) for one in within)


class WaitingRequests:
    """Reports a scheduler's waiting requests, and the blocks that ending requests used, to its free block queue.

    A request counts as waiting until it ends, because it can be computed again after a preemption. Only blocks of full
    attention are reported as needed, because the request keeps them until then. Other blocks, such as those of sliding
    windows, are freed while the request runs. The policy learns about these at the end of the request. After any
    failure here LRU takes over, and nothing more is reported.
    """

    def __init__(self, scheduler: Any, name: str, memory: str = "") -> None:
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
        policy = create_policy(name, pool.num_gpu_blocks, memory)
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
        """Free the blocks of a request that has ended, or that was preempted and will be computed again."""
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
        except Exception as error:  # noqa: BLE001 - this runs in the scheduler's thread, which must not stop
            self._failed = True
            self._waiting.clear()
            self._free.fail(error)

    def _begin(self, request: Any) -> None:
        if self._scheduler.requests.get(request.request_id) is not request:
            return  # it adds input to a request that streams its input, or ends that input
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
        """Return a request's use of some groups; `known` are the first contents, for a single group."""
        parameters = request.sampling_params
        hint = read_hint(parameters.extra_args if parameters is not None else None)
        keys = self._contents(request, groups, known)
        ahead = None
        if hint.ahead is not None:
            ahead = min(len(keys), sum(hint.ahead // tokens for _, tokens in groups))
        return Use(keys, hint.site, ahead, hint.query, hint.number, request.priority)

    def _contents(self, request: Any, groups: _Groups, known: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the contents of a request's full blocks, in order: those of its prompt, then those of its answer."""
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
