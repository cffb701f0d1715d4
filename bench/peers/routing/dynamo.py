"""Dynamo's KV router: blocks to compute and blocks in use, the fewest win."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.simulation import ObservingRouter
from flightllm.router.fleet import Assigned, Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node

_OVERLAP, _PREFILL = 1.0, 1.0
"""The credit for cached blocks, and the weight of blocks to compute."""
_TEMPERATURE: Final = 0.0


class Dynamo(ObservingRouter):
    """Dynamo's cost: the blocks that the replica must compute first, and the blocks that its prompts use.

    The first part has the tokens to compute, of this prompt and of those without a first token, divided by the size of
    a block. The second part has the blocks of all prompts without an answer and of this one, shared blocks once. With a
    temperature of 0, the lowest sum wins. Otherwise, a softmax over the sums, scaled to their range, draws the replica.

    Source: github.com/ai-dynamo/dynamo at 01690d4, `lib/kv-router/src/scheduling/selector.rs`, and the defaults of
    docs.nvidia.com/dynamo v1.2. Left out: tiers below the GPU, the queue before the router, which is empty below its
    threshold, and disaggregated replicas.
    """

    def __init__(self, fleet: Fleet, temperature: float = _TEMPERATURE) -> None:
        super().__init__(fleet)
        self._temperature = temperature
        self._random = np.random.default_rng(0)
        self._prefill: NDArray[np.float64] = np.zeros(0)
        self._blocks: NDArray[np.float64] = np.zeros(0)
        self._computing: dict[int, tuple[int, int]] = {}

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica with the lowest cost."""
        del now
        fleet, size = self.fleet, self.fleet.tree.block_tokens
        if len(self._prefill) < len(fleet.load):
            self._prefill, self._blocks = np.zeros(len(fleet.load)), np.zeros(len(fleet.load))
        cached = np.zeros(len(fleet.load))
        for replica, held in fleet.tree.cached_by_replica(leaf).items():
            cached[replica] = held
        whole = prompt.count / size
        new = np.full(len(fleet.load), whole)
        for node in leaf.up():
            for replica in node.open:
                new[replica] -= node.blocks
        computed = np.maximum(0.0, self._prefill / size + whole - _OVERLAP * cached)
        chosen = self._draw(_PREFILL * computed + self._blocks + new)
        uncached = max(0, prompt.count - int(cached[chosen]) * size)
        self._computing[prompt.key] = chosen, uncached
        self._prefill[chosen] += uncached
        self._blocks[chosen] += new[chosen]
        return chosen

    def _draw(self, costs: NDArray[np.float64]) -> int:
        width = costs.max() - costs.min()
        if not self._temperature:
            best = np.flatnonzero(costs == costs.min())
            return int(best[0] if len(best) == 1 else self._random.choice(best))
        chances = np.exp(-(costs - costs.min()) / (width * self._temperature)) if width else np.ones(len(costs))
        return int(self._random.choice(len(costs), p=chances / chances.sum()))

    def answering(self, key: int, now: float) -> None:
        """Count a prompt as computed."""
        del now
        replica, uncached = self._computing.pop(key)
        self._prefill[replica] -= uncached

    def answered(self, one: Assigned, tokens: int, now: float) -> None:
        """Free the blocks that only this prompt used."""
        del tokens, now
        whole = one.prompt.count / self.fleet.tree.block_tokens
        shared = sum(node.blocks for node in one.leaf.up() if one.replica in node.open)
        self._blocks[one.replica] -= whole - shared
