"""The names of vLLM that the KV connector and the eviction policies use, and a check that this vLLM has them.

vLLM has no stable interface for most of this: each version can rename or remove what another has. So no other module
decides whether a vLLM fits. Each part looks once in each process, when it is imported. If a name is missing, eviction
stays vLLM's own, and the connector refuses to start.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import isfunction, unwrap
from typing import Final, Literal

KNOWN_VERSIONS: Final = ("0.32.", "0.33.")
"""The starts of the versions that the parts are written for; see `docs/reference/compatibility.md`."""

Part = Literal["connector", "eviction", "offload"]

_CONNECTOR: Final = "vllm.distributed.kv_transfer.kv_connector.v1.base"
_SPEC: Final = "vllm.v1.kv_cache_interface"
NAMES: Final[Mapping[Part, Mapping[str, tuple[str, ...]]]] = {
    "connector": {
        f"{_CONNECTOR}:KVConnectorMetadata": (),
        f"{_CONNECTOR}:KVConnectorRole": ("SCHEDULER",),
        f"{_CONNECTOR}:KVConnectorWorkerMetadata": ("aggregate",),
        f"{_CONNECTOR}:KVConnectorBase_V1": (
            "_vllm_config", "_kv_transfer_config", "_kv_cache_config", "_get_connector_metadata",
            # what vLLM calls: under another name it would call nothing of ours
            "requires_kv_delivery", "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta",
            "update_connector_output", "request_finished", "register_kv_caches", "start_load_kv", "wait_for_save",
            "get_finished", "get_block_ids_with_load_errors", "build_connector_worker_meta", "shutdown",
        ),
        f"{_SPEC}:FullAttentionSpec": (
            "block_size", "num_kv_heads", "head_size", "head_size_v", "dtype",
        ),
        f"{_SPEC}:SlidingWindowSpec": ("sliding_window",),
        f"{_SPEC}:KVCacheConfig": ("num_blocks", "kv_cache_groups"),
        f"{_SPEC}:KVCacheGroupSpec": ("layer_names", "kv_cache_spec"),
        "vllm.v1.core.kv_cache_manager:KVCacheBlocks": ("get_block_ids",),
        # the block with the number 0, which stands for each block behind a sliding window
        "vllm.v1.core.block_pool:BlockPool": ("null_block",),
        "vllm.v1.core.sched.output:SchedulerOutput": (
            "num_scheduled_tokens", "scheduled_new_reqs", "scheduled_cached_reqs",
        ),
        "vllm.v1.core.sched.output:NewRequestData": ("req_id", "block_ids", "num_computed_tokens"),
        "vllm.v1.core.sched.output:CachedRequestData": (
            "req_ids", "resumed_req_ids", "new_block_ids", "num_computed_tokens",
        ),
        "vllm.v1.outputs:KVConnectorOutput": ("finished_recving", "invalid_block_ids", "kv_connector_worker_meta"),
        "vllm.v1.request:Request": (
            "request_id", "prompt_token_ids", "sampling_params", "mm_features", "lora_request", "cache_salt",
            "skip_reading_prefix_cache",
        ),
        "vllm.config:CompilationConfig": ("static_forward_context",),
        "vllm.config:KVTransferConfig": ("kv_load_failure_policy", "kv_connector_extra_config"),
    },
    "eviction": {
        "vllm.v1.core.sched.scheduler:Scheduler": (
            "add_request", "_free_request_blocks", "requests", "hash_block_size", "kv_cache_manager", "cache_config",
            "vllm_config",
        ),
        "vllm.v1.core.kv_cache_manager:KVCacheManager": ("block_pool", "coordinator"),
        "vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator": ("single_type_managers",),
        "vllm.v1.core.single_type_kv_cache_manager:SingleTypeKVCacheManager": (
            "kv_cache_group_id", "block_size", "block_pool", "kv_cache_spec",
        ),
        "vllm.v1.core.block_pool:BlockPool": ("free_block_queue", "num_gpu_blocks", "reset_prefix_cache"),
        "vllm.v1.core.kv_cache_utils:FreeKVCacheBlockQueue": ("get_all_free_blocks",),
        "vllm.v1.core.kv_cache_utils:KVCacheBlock": ("block_id", "block_hash"),
        "vllm.v1.core.kv_cache_utils:make_block_hash_with_group_id": (),
        "vllm.v1.core.kv_cache_utils:resolve_block_hashes": (),
        f"{_SPEC}:FullAttentionSpec": (),
        "vllm.v1.request:Request": (
            "request_id", "block_hashes", "sampling_params", "priority", "num_computed_tokens", "is_finished",
        ),
    },
    "offload": {
        "vllm.v1.kv_offload.cpu.policies.base:CachePolicy": (
            # what vLLM calls
            "get", "insert", "remove", "touch", "on_store_miss", "on_request_finished", "mark_evictable",
            "mark_non_evictable", "evict", "clear",
        ),
        "vllm.v1.kv_offload.cpu.policies.base:ChunkStatus": ("ref_cnt",),
        "vllm.v1.kv_offload.base:ReqContext": ("kv_transfer_params", "get_offload_key_position"),
    },
}  # fmt: skip
"""For each part the classes and functions that it uses, and the attributes of their instances."""


def vllm_version() -> str:
    """Return the version of the imported vLLM."""
    import vllm

    return str(vllm.__version__)


def is_known() -> bool:
    """Return whether the parts are written for this version of vLLM."""
    return vllm_version().startswith(KNOWN_VERSIONS)


def known_versions() -> str:
    """Return the known versions as people write them."""
    return " and ".join(f"{one}x" for one in KNOWN_VERSIONS)


@cache
def unfit(part: Part) -> str:
    """Return the reason why a part cannot work with this vLLM, or with this installation; empty if it can.

    The reason names vLLM's version and each missing name. The answer is that of the first call.
    """
    if mixed := mixed_distributions():
        return mixed
    lacking = ", ".join(missing(NAMES[part]))
    return lacking and f"vLLM {vllm_version()} lacks {lacking}; known versions: {known_versions()}"


def missing(names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the missing ones of `names`: the attributes of instances, by `module:class` or `module:function`."""
    for place, attributes in names.items():
        module, _, owner = place.partition(":")
        try:
            found = getattr(import_module(module), owner)
        except (ImportError, AttributeError):
            yield f"{module}.{owner}"
            continue
        known = _attributes(found) if attributes else frozenset()
        yield from (f"{owner}.{name}" for name in attributes if name not in known)


def _attributes(owner: type) -> frozenset[str]:
    """Return the names that a class or its bases define, declare as fields, or set in a method."""
    found = set[str]()
    for one in owner.__mro__:
        found |= {*vars(one), *vars(one).get("__annotations__", ())}
        for method in filter(isfunction, vars(one).values()):
            found |= {step.argval for step in dis.get_instructions(unwrap(method)) if step.opname == "STORE_ATTR"}
    return frozenset(found)


def mixed_distributions() -> str:
    """Return a reason if `flightllm` and `flightllm-kv` of two versions are installed; empty if not.

    Both have the same files, so those of the second installation have replaced those of the first.
    """
    try:
        whole, part = version("flightllm"), version("flightllm-kv")
    except PackageNotFoundError:
        return ""
    return (
        ""
        if whole == part
        else f"flightllm {whole} and flightllm-kv {part} are both installed: uninstall both, then install one of them"
    )
