"""Hints for an engine's prefix cache and KV store: how many tokens prompts share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flightllm.common.newest import Newest
from flightllm.common.text import shared_start
from flightllm.kvcache.eviction.hint import ReuseHint
from flightllm.kvcache.options import HINT
from flightllm.llm.engine import Request
from flightllm.llm.tokenizer import PromptEncoder

_STARTS: Final = 64
"""How many starts of prompts are kept with their tokens: a few for each of the concurrent queries."""


class Hints:
    """The maker of vLLM's hints: how many tokens at its start a prompt shares with other prompts.

    With `keeping`, the hint is for the connector of a KV store. With `evicting`, it is for the eviction policy of the
    prefix cache. With `offloading`, it is also for the policy of vLLM's cache in CPU memory, which gets only the
    transfer parameters of a request.
    """

    def __init__(
        self, encoder: PromptEncoder, *, keeping: bool = True, evicting: bool = False, offloading: bool = False
    ) -> None:
        self._encoder = encoder
        self._keeping = keeping
        self._evicting = evicting
        self._offloading = offloading
        self._starts = Newest[str, Sequence[int]](_STARTS)
        """The starts used last, with their tokens: a prompt shares one start with its predecessors, and one with its
        successors."""

    def extra_args(self, requests: Sequence[Request], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the extra arguments of requests that are sent together; `prompts` are the prompts' tokens.

        All of the requests get one hint, so the least number of tokens counts.
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
        """Return how many of the first tokens `ids` of a prompt its neighbours share."""
        return self._tokens(request.prompt[: request.recurs], ids)

    def ahead(self, request: Request, ids: Sequence[int]) -> int | None:
        """Return how many of the first tokens `ids` of a prompt later prompts share; None: unknown."""
        if request.reuse is None or request.reuse.ahead is None:
            return None
        return self._tokens(request.prompt[: request.reuse.ahead], ids)

    def _tokens(self, start: str, ids: Sequence[int]) -> int:
        """Return how many tokens of a prompt certainly belong to `start`, a start of the prompt's text."""
        if not start:
            return 0
        tokens = self._starts.use(start)
        if tokens is None:
            [tokens] = self._encoder.encode([start])
            self._starts[start] = tokens
        return shared_start(ids, tokens)
