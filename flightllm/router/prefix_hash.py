"""`prefix_hash`: choose a replica by a hash of the prompt's first tokens, as gateways in front of engines do."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import TOKEN_BYTES, Node

PREFIX_TOKENS: Final = 256
_DIGEST_BYTES: Final = 8


class PrefixHash(OnlineRouter):
    """A policy that sends prompts with the same first tokens to the same replica, whatever its load.

    The hash covers the first `prefix_tokens` tokens, or the whole prompt where it is shorter, and the salt. Rendezvous
    hashing chooses the replica that is up and has the highest hash together with the prefix. When a replica is lost,
    only its own prefixes move; they return with the replica.
    """

    def __init__(self, fleet: Fleet, prefix_tokens: int = PREFIX_TOKENS) -> None:
        super().__init__(fleet)
        if prefix_tokens < 1:
            raise ValueError(f"prefix_tokens: expected at least 1, got {prefix_tokens}")
        self._bytes = prefix_tokens * TOKEN_BYTES

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica for a prompt's first tokens."""
        del leaf, now
        prefix = blake2b(prompt.tokens[: self._bytes], digest_size=16, key=blake2b(prompt.salt).digest()).digest()
        return max(self.fleet.up, key=lambda replica: (_weight(prefix, replica), replica))


def _weight(prefix: bytes, replica: int) -> bytes:
    return blake2b(prefix + replica.to_bytes(4, "little"), digest_size=_DIGEST_BYTES).digest()


def create(fleet: Fleet) -> PrefixHash:
    """Return the policy."""
    return PrefixHash(fleet)
