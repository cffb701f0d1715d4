"""`round_robin`: choose the replicas in turn."""

from itertools import count

from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node


class RoundRobin(OnlineRouter):
    """A policy that sends each prompt to the next replica."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._turn = count()

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the next replica that is up."""
        del prompt, leaf, now
        up = self.fleet.up
        return up[next(self._turn) % len(up)]


def create(fleet: Fleet) -> RoundRobin:
    """Return the policy."""
    return RoundRobin(fleet)
