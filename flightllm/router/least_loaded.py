"""`least_loaded`: the replica with the fewest prompts under way."""

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.tree import Node


class LeastLoaded(OnlineRouter):
    """Each prompt to the replica with the fewest unanswered ones, the lowest number first."""

    def choose(self, prompt: Prompt, leaf: Node, now: float) -> int:
        """Return the replica with the fewest prompts."""
        del prompt, leaf, now
        up = self.fleet.up
        return up[int(self.fleet.requests[up].argmin())]


def create(fleet: Fleet) -> LeastLoaded:
    """Make the policy."""
    return LeastLoaded(fleet)
