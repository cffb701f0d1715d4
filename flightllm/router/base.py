"""The protocol of routing policies: prompts in, replicas out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from flightllm.router.tree import TOKEN_BYTES

if TYPE_CHECKING:
    from flightllm.router.fleet import Fleet
    from flightllm.router.local_queue import LocalQueue

POLICIES: Final = ("round_robin", "least_loaded", "prefix_hash", "e2", "e2_batch")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt on its way to a replica; `tokens` is the result of `tree.pack`."""

    key: int
    """Unique among all prompts that have no answer yet."""
    tokens: bytes
    answer_tokens: int
    """The largest number of tokens that the answer can have."""
    salt: bytes = b""
    """Prompts with different salts share no prefix."""
    priority: int = 0
    """Prompts of a lower number are sent first."""

    @property
    def count(self) -> int:
        """Return the number of the prompt's tokens."""
        return len(self.tokens) // TOKEN_BYTES


class Router(Protocol):
    """A routing policy over the replicas of a fleet. Only one thread at a time can use a policy."""

    def route(self, prompts: Sequence[Prompt], now: float) -> list[int]:
        """Choose a replica for each prompt, in order, and assign the prompt to it in the fleet. `now` is in seconds.

        Raises:
            EngineUnavailableError: no replica is up.
        """

    def steal(self, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
        """Take prompts from other replicas' queues, assign them to the replica `idle`, and return them.

        The queue of `idle` is empty.
        """


def check_policy(policy: str) -> None:
    """Raise `ValueError` for an unknown routing policy."""
    if policy not in POLICIES:
        raise ValueError(f"policy: expected one of {', '.join(POLICIES)}; got {policy!r}")


def create_router(policy: str, fleet: Fleet) -> Router:
    """Return the policy of this name, from the module of the same name in this folder."""
    check_policy(policy)
    return cast("Router", import_module(f"flightllm.router.{policy}").create(fleet))
