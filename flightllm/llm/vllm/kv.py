"""Have vLLM keep the starts of prompts that recur in a store outside it, and tell it which prompts share what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flightllm.kvcache.eviction import OFF, check_policy
from flightllm.kvcache.eviction.hint import EVICTION
from flightllm.kvcache.opening import open_codecs
from flightllm.kvcache.options import gather_kv_options, read_kv_options

_CONNECTOR = "FlightLLMConnector"


def kv_transfer(store: str, codec: str, token: str | None, options: Mapping[str, object]) -> dict[str, Any] | None:
    """Return vLLM's `kv_transfer_config` for a store; None where none is named.

    Raises:
        ConfigError: an option is wrong, or there are some and no store.
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
    """Return the codecs of a `kv_transfer_config` that change answers; none where it is not for our store.

    Raises:
        ConfigError: there is no profile in the model's folder where a codec needs one.
        MissingExtraError: the extra that codes KV caches is not installed.
    """
    if not isinstance(transfer, Mapping) or transfer.get("kv_connector") != _CONNECTOR:
        return []
    options = read_kv_options(transfer.get("kv_connector_extra_config", {}))
    open_codecs(options, folder)
    return options.lossy


def eviction_config(policy: str) -> dict[str, Any]:
    """Return what vLLM's `additional_config` says of a policy; nothing for `none`, which leaves vLLM its own order.

    Raises:
        ValueError: there is no such policy.
    """
    check_policy(policy)
    return {} if policy == OFF else {EVICTION: policy}
