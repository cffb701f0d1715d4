"""Batches that wait for their turn, with what the prefix cache has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from flightllm.kvcache.eviction.base import Use
from flightllm.llm.kv_hints import Hints
from flightllm.model.engine import Request, cache_salt

BLOCK_TOKENS: Final = 32
"""Starts are kept in blocks of so many tokens; the last one of what a batch begins with may have fewer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch of one tenant's prompts, whose first `prefix` tokens are equal; each is longer than that."""

    requests: Sequence[Request]
    prompts: Sequence[Sequence[int]]
    prefix: int
    use: Use[bytes]
    """The blocks that it begins with, by all tokens up to their end and the tenant."""
    worth: int
    """So many tokens at the start are worth keeping."""

    @property
    def tenant(self) -> str:
        """Return whose prompts they are."""
        return self.requests[0].tenant

    @property
    def start(self) -> Sequence[int]:
        """Return the tokens that may be kept already: of a lone prompt all but the last, whose logits are wanted."""
        return _start(self.prompts, self.prefix)


def plan_turn(requests: Sequence[Request], prompts: Sequence[Sequence[int]], prefix: int, hints: Hints) -> Turn:
    """Return the turn of a batch.

    What several prompts begin with is kept, of a lone one what those around it have too; all where nobody knows.
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
    """Return the keys of a start's blocks, in order."""
    numbers = np.asarray(tokens, dtype="<u4")
    digest = blake2b(cache_salt(tenant).encode(), digest_size=16)
    keys = []
    for first in range(0, len(numbers), BLOCK_TOKENS):
        digest.update(numbers[first : first + BLOCK_TOKENS].tobytes())
        keys.append(digest.digest())
    return keys


def _start(prompts: Sequence[Sequence[int]], prefix: int) -> Sequence[int]:
    return prompts[0][:-1] if len(prompts) == 1 else prompts[0][:prefix]
