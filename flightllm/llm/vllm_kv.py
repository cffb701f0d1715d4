"""Have vLLM keep the starts of prompts that recur in a store outside it, and tell it which those are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flightllm.kvcache.opening import open_codecs
from flightllm.kvcache.options import HINT, gather_kv_options, read_kv_options
from flightllm.llm.base import Request
from flightllm.llm.local_plan import shared_length
from flightllm.llm.prompts import PromptEncoder

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


class Hints:
    """Tells the connector how many tokens at a prompt's start other prompts have too."""

    def __init__(self, encoder: PromptEncoder) -> None:
        self._encoder = encoder
        self._last: tuple[str, Sequence[int]] = ("", ())
        """The start asked for last, with its tokens: the prompts of a query come by their starts."""

    def extra_args(self, request: Request, ids: Sequence[int]) -> dict[str, Any] | None:
        """Return the arguments that go with a request whose prompt has the tokens `ids`."""
        recurring = self.recurring(request, ids)
        return {HINT: recurring} if recurring else None

    def recurring(self, request: Request, ids: Sequence[int]) -> int:
        """Return how many of the prompt's tokens `ids` at their start the prompts around it have too."""
        if not request.recurs:
            return 0
        start = request.prompt[: request.recurs]
        if self._last[0] != start:
            [tokens] = self._encoder.encode([start])
            self._last = start, tokens
        return shared_length(ids, self._last[1])
