"""Tell an engine's prefix cache and KV store which prompts share what."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from flightllm.kvcache.eviction.hint import ReuseHint
from flightllm.kvcache.options import HINT
from flightllm.model.engine import Request
from flightllm.model.tokenizer import PromptEncoder, shared_length

_STARTS: Final = 64
"""So many starts are remembered with their tokens: a few for each of the queries that take turns."""


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
