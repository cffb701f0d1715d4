"""llm-d's scorers: the queue, the use of the KV cache, and the cached part of the prompt."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.simulation import ObservingRouter
from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node

QUEUE, USE, PREFIX = 2.0, 2.0, 3.0
"""The weights of the default configuration."""
_BLOCK_TOKENS: Final = 64
"""The size of the blocks in which the default index compares prompts."""


class LlmD(ObservingRouter):
    """llm-d's default profile: the highest sum of weighted scores wins, and ties are broken at random.

    Source: github.com/llm-d/llm-d-router at ebab687 (after v0.9.0), `config/charts/routerlib/templates/_config.yaml`,
    and the plugins `queue-scorer`, `kv-cache-utilization-scorer`, `prefix-cache-scorer` and `max-score-picker`. Left
    out: flow control, saturation filters, LoRA and sessions.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._random = np.random.default_rng(0)

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica with the highest score."""
        del now
        waiting, used = self.reports.waiting, self.reports.used
        least, most = waiting.min(), waiting.max()
        score = USE * (1.0 - used) + PREFIX * cached_share(self.fleet, prompt, leaf, _BLOCK_TOKENS)
        score += QUEUE * (most - waiting) / (most - least) if most > least else QUEUE
        best = np.flatnonzero(score == score.max())
        return int(best[0] if len(best) == 1 else self._random.choice(best))


def cached_share(fleet: Fleet, prompt: RoutedPrompt, leaf: Node, block_tokens: int) -> NDArray[np.float64]:
    """Return the share of a prompt's whole blocks that each replica holds, 0 to 1."""
    size = max(block_tokens, fleet.tree.block_tokens)
    share = np.zeros(len(fleet.load))
    blocks = prompt.count // size
    if blocks:
        for replica, held in fleet.tree.cached_by_replica(leaf).items():
            share[replica] = held * fleet.tree.block_tokens // size / blocks
    return share
