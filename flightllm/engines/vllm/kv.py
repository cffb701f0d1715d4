"""Configure vLLM's KV store and eviction policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flightllm.kvcache.eviction import OFF, check_policy
from flightllm.kvcache.eviction.hint import EVICTION, MEMORY
from flightllm.kvcache.opening import open_codecs
from flightllm.kvcache.options import gather_kv_options, read_kv_options

_CONNECTOR = "FlightLLMConnector"


def kv_transfer(store: str, codec: str, token: str | None, options: Mapping[str, object]) -> dict[str, Any] | None:
    """Return vLLM's `kv_transfer_config` for a store, or None if there is no store.

    Raises:
        ConfigError: an option is wrong, or there are options without a store.
    """
    extra = gather_kv_options(store, codec, token, options)
    if not extra:
        return None
    return {
        "kv_connector": _CONNECTOR,
        "kv_connector_module_path": "flightllm.kvcache.connector.vllm",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": extra,
    }


def lossy_codecs(transfer: object, folder: Path) -> list[str]:
    """Return the codecs of a `kv_transfer_config` that change answers; empty for another connector than ours.

    Raises:
        ConfigError: a codec needs a profile, and the model's folder has no profile.
        MissingExtraError: the extra for the codecs of KV caches is not installed.
    """
    if not isinstance(transfer, Mapping) or transfer.get("kv_connector") != _CONNECTOR:
        return []
    options = read_kv_options(transfer.get("kv_connector_extra_config", {}))
    open_codecs(options, folder)
    return options.lossy


def eviction_config(policy: str, memory: str = "") -> dict[str, Any]:
    """Return the part of vLLM's `additional_config` for a policy; empty for `none`, vLLM's own policy.

    `memory` is the path of a file in which the policy keeps what it learned.

    Raises:
        ValueError: there is no such policy.
    """
    check_policy(policy)
    if policy == OFF:
        return {}
    return {EVICTION: policy, **({MEMORY: memory} if memory else {})}
