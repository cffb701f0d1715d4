"""What every routing policy offers: prompts in, replicas out."""

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
    """A prompt on its way to a replica; `tokens` are packed as by `tree.pack`."""

    key: int
    """Tells it from every other one under way."""
    tokens: bytes
    answer_tokens: int
    """The most that it may generate."""
    salt: bytes = b""
    """Prompts with different ones share no prefix."""
    priority: int = 0
    """Lower ones go first."""

    @property
    def count(self) -> int:
        """Return the number of its tokens."""
        return len(self.tokens) // TOKEN_BYTES


class Router(Protocol):
    """A routing policy over the replicas of a fleet. One thread at a time."""

    def route(self, prompts: Sequence[Prompt], now: float) -> list[int]:
        """Choose a replica for each prompt, in their order, and assign it there in the fleet. `now` is in seconds.

        Raises:
            EngineUnavailableError: no replica is up.
        """

    def steal(self, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
        """Take prompts out of other replicas' queues for one that has run dry, assign them to it and return them."""


def check_policy(policy: str) -> None:
    """Raise `ValueError` for an unknown routing policy."""
    if policy not in POLICIES:
        raise ValueError(f"policy: expected one of {', '.join(POLICIES)}; got {policy!r}")


def create_router(policy: str, fleet: Fleet) -> Router:
    """Make the policy of this name, by the module of that name here."""
    check_policy(policy)
    return cast("Router", import_module(f"flightllm.router.{policy}").create(fleet))
