"""Batches that wait for their turn, with the facts about them that the prefix cache needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from flightllm.engines.kv_hints import Hints
from flightllm.kvcache.eviction.base import Use
from flightllm.llm.engine import Request, cache_salt

BLOCK_TOKENS: Final = 32
"""The tokens of a block in the prefix cache; the last block of a batch's shared start can have fewer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch of one tenant's prompts, which share their first `prefix` tokens; each prompt has more tokens."""

    requests: Sequence[Request]
    prompts: Sequence[Sequence[int]]
    prefix: int
    use: Use[bytes]
    """The blocks at the batch's start; a key depends on the tenant and on all tokens up to the end of the block."""
    worth: int
    """How many tokens at the start are worth caching."""

    @property
    def tenant(self) -> str:
        """Return the tenant of the prompts."""
        return self.requests[0].tenant

    @property
    def start(self) -> Sequence[int]:
        """Return the tokens that can come from the cache.

        For a batch of one prompt, these are all tokens except the last, whose logits must be computed. Otherwise they
        are the shared prefix.
        """
        return _start(self.prompts, self.prefix)


def plan_turn(requests: Sequence[Request], prompts: Sequence[Sequence[int]], prefix: int, hints: Hints) -> Turn:
    """Return the turn of a batch.

    The shared start of several prompts is worth caching. Of a single prompt, the part is that its neighbours share, or
    the whole start where this is unknown.
    """
    start = _start(prompts, prefix)
    alone = len(prompts) == 1
    keys = block_keys(start[: len(start) // BLOCK_TOKENS * BLOCK_TOKENS] if alone else start, requests[0].tenant)
    last = requests[-1]
    if last.reuse is None:
        return Turn(requests, prompts, prefix, Use(keys), len(start))
    ahead = hints.ahead(last, prompts[-1])
    blocks = None if ahead is None else len(keys) if ahead >= len(start) else ahead // BLOCK_TOKENS
    use = Use(keys, last.reuse.site, blocks, last.reuse.query, last.reuse.number)
    if not alone or ahead is None:
        return Turn(requests, prompts, prefix, use, len(start))
    return Turn(requests, prompts, prefix, use, min(len(start), max(ahead, hints.recurring(last, prompts[-1]))))


def block_keys(tokens: Sequence[int], tenant: str) -> list[bytes]:
    """Return the keys of a start's blocks, in order: each one is a digest of the tenant and all tokens so far."""
    numbers = np.asarray(tokens, dtype="<u4")
    digest = blake2b(cache_salt(tenant).encode(), digest_size=16)
    keys = []
    for first in range(0, len(numbers), BLOCK_TOKENS):
        digest.update(numbers[first : first + BLOCK_TOKENS].tobytes())
        keys.append(digest.digest())
    return keys


def _start(prompts: Sequence[Sequence[int]], prefix: int) -> Sequence[int]:
    return prompts[0][:-1] if len(prompts) == 1 else prompts[0][:prefix]
