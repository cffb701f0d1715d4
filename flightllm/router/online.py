"""The base class of policies that route one prompt at a time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane
from flightllm.router.tree import Node


class OnlineRouter(ABC):
    """A policy that routes prompts one by one as they arrive, and never moves them. One thread at a time."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    @abstractmethod
    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return a replica that is up for a prompt whose whole blocks end at `leaf` of the tree."""

    def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
        """Choose and assign a replica for each prompt; see `Router.route`."""
        _ = self.fleet.up  # raises if no replica is up
        chosen = []
        for prompt in prompts:
            leaf = self.fleet.insert(prompt)
            replica = self.choose(prompt, leaf, now)
            self.fleet.assign(prompt, leaf, replica, now)
            chosen.append(replica)
        return chosen

    def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
        """Take no prompts: the choice of an online policy is final."""
        del idle, queues, now
        return []
