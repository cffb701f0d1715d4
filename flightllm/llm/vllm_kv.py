"""Have vLLM keep the starts of prompts that recur in a store outside it, and tell it which prompts share what."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from flightllm.kvcache.eviction import OFF, check_policy
from flightllm.kvcache.eviction.hint import EVICTION, ReuseHint
from flightllm.kvcache.opening import open_codecs
from flightllm.kvcache.options import HINT, gather_kv_options, read_kv_options
from flightllm.llm.base import Request
from flightllm.llm.local_plan import shared_length
from flightllm.llm.prompts import PromptEncoder

_CONNECTOR = "FlightLLMConnector"
_STARTS: Final = 64
"""So many starts are remembered with their tokens: a few for each of the queries that take turns."""


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


class Hints:
    """Tells vLLM how many tokens at a prompt's start other prompts have too.

    With `keeping` this is told to the connector of a KV store, with `evicting` to the policy by which blocks of the
    prefix cache go; with `offloading` also to that of vLLM's cache in CPU memory, which sees a request's transfer
    parameters alone.
    """

    def __init__(
        self, encoder: PromptEncoder, *, keeping: bool = True, evicting: bool = False, offloading: bool = False
    ) -> None:
        self._encoder = encoder
        self._keeping = keeping
        self._evicting = evicting
        self._offloading = offloading
        self._starts: OrderedDict[str, Sequence[int]] = OrderedDict()
        """The starts asked for last, with their tokens: a prompt shares one with those before it, one with the next."""

    def extra_args(self, requests: Sequence[Request], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the arguments that go with requests sent together, whose prompts' tokens are `prompts`.

        There is one hint for all of them, so that the least counts.
        """
        found: dict[str, Any] = {}
        if self._keeping and (recurring := min(map(self.recurring, requests, prompts))):
            found[HINT] = recurring
        last = requests[-1].reuse
        if self._evicting and last is not None:
            known = list(map(self.ahead, requests, prompts))
            ahead = min((tokens for tokens in known if tokens is not None), default=None)
            hint = ReuseHint(last.site, last.query, last.number, ahead if None not in known else None).extra_args()
            found |= {**hint, "kv_transfer_params": hint} if self._offloading else hint
        return found

    def recurring(self, request: Request, ids: Sequence[int]) -> int:
        """Return how many of the prompt's tokens `ids` at their start the prompts around it have too."""
        return self._tokens(request.prompt[: request.recurs], ids)

    def ahead(self, request: Request, ids: Sequence[int]) -> int | None:
        """Return how many of them those that follow have too; None: unknown."""
        if request.reuse is None or request.reuse.ahead is None:
            return None
        return self._tokens(request.prompt[: request.reuse.ahead], ids)

    def _tokens(self, start: str, ids: Sequence[int]) -> int:
        """Return how many tokens of a prompt are certainly those of a start of its text."""
        if not start:
            return 0
        tokens = self._starts.pop(start, None)
        if tokens is None:
            [tokens] = self._encoder.encode([start])
        self._starts[start] = tokens
        if len(self._starts) > _STARTS:
            self._starts.popitem(last=False)
        return shared_length(ids, tokens)
