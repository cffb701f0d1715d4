"""`prefix_hash`: the replica that the beginning of a prompt hashes to, as gateways in front of engines do it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.tree import TOKEN_BYTES, Node

PREFIX_TOKENS: Final = 256
_DIGEST_BYTES: Final = 8


class PrefixHash(OnlineRouter):
    """Prompts with the same first tokens to the same replica, whatever it has to do.

    `prefix_tokens` are hashed, or the whole prompt where it is shorter, with its salt. The replica is the one among
    those that are up whose hash together with that of the prefix is highest (rendezvous hashing): when one is lost only
    its own prefixes move, and they come back with it.
    """

    def __init__(self, fleet: Fleet, prefix_tokens: int = PREFIX_TOKENS) -> None:
        super().__init__(fleet)
        if prefix_tokens < 1:
            raise ValueError("prefix_tokens: at least 1")
        self._bytes = prefix_tokens * TOKEN_BYTES

    def choose(self, prompt: Prompt, leaf: Node, now: float) -> int:
        """Return the replica for a prompt's beginning."""
        del leaf, now
        prefix = blake2b(prompt.tokens[: self._bytes], digest_size=16, key=blake2b(prompt.salt).digest()).digest()
        return max(self.fleet.up, key=lambda replica: (_weight(prefix, replica), replica))


def _weight(prefix: bytes, replica: int) -> bytes:
    return blake2b(prefix + replica.to_bytes(4, "little"), digest_size=_DIGEST_BYTES).digest()


def create(fleet: Fleet) -> PrefixHash:
    """Make the policy."""
    return PrefixHash(fleet)
