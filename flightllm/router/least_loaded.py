"""`least_loaded`: choose the replica with the fewest unanswered prompts."""

from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node


class LeastLoaded(OnlineRouter):
    """A policy that sends each prompt to the replica with the fewest unanswered prompts; of several, to the first."""

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica with the fewest unanswered prompts."""
        del prompt, leaf, now
        up = self.fleet.up
        return up[int(self.fleet.requests[up].argmin())]


def create(fleet: Fleet) -> LeastLoaded:
    """Return the policy."""
    return LeastLoaded(fleet)
