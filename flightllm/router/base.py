"""The protocol of routing policies: prompts in, replicas out."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane

POLICIES: Final = ("round_robin", "least_loaded", "prefix_hash", "e2", "e2_batch")


class Router(Protocol):
    """A routing policy over the replicas of a fleet. Only one thread at a time can use a policy."""

    def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
        """Choose a replica for each prompt, in order, and assign the prompt to it in the fleet. `now` is in seconds.

        Raises:
            EngineUnavailableError: no replica is up.
        """

    def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
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
