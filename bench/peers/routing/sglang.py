"""SGLang's cache-aware rule: the replica that answered the most similar prompt, unless the load is out of balance."""

from __future__ import annotations

from typing import Final

from bench.simulation import ObservingRouter
from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node, PrefixTree

_CACHED: Final = 0.3
"""The share of a prompt from which the replica that had it is chosen."""
_MORE, _TIMES = 64, 1.5
"""The load is out of balance if one replica has more prompts than another by both: a difference and a factor."""


class SGLang(ObservingRouter):
    """SGLang's cache-aware policy, with the thresholds of its command line.

    Its tree knows what it sent where, and not what engines evict. Source: github.com/sgl-project/sglang at 053b63f,
    `sgl-model-gateway/src/policies/cache_aware.rs`. Left out: the eviction of the tree, whose default size no run here
    reaches. The tree here has blocks of tokens; SGLang's has characters.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._tree = PrefixTree(fleet.tree.block_tokens)
        self._sent = 0

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica of the longest match, or the one with the fewest prompts."""
        del leaf, now
        loads = self.fleet.requests
        own = self._tree.insert(prompt.tokens, prompt.salt)
        chosen = int(loads.argmin())
        least, most = loads[chosen], loads.max()
        if not (most - least > _MORE and most > _TIMES * least):
            deepest = next((node for node in own.up() if node.recent), None)
            if deepest is not None and deepest.end * self._tree.block_tokens > _CACHED * prompt.count:
                chosen = max(deepest.recent, key=deepest.recent.__getitem__)  # the one that was asked last
        self._sent += 1
        for node in own.up():
            node.recent[chosen] = self._sent
        return chosen
