"""Prompts lined up so that those that share most are neighbours, and what each takes behind the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from flightllm.model.cost import Rates
from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.tree import Node

_Holders = tuple[int, frozenset[int]]
"""A number of blocks, and the replicas that hold so many from the first on without a gap."""


@dataclass(frozen=True, slots=True)
class Line:
    """Prompts in the order of the tree: below a node in the order in which its branches first came.

    Prompts that were in such an order stay in theirs. Sizes are in tokens; only whole blocks count as shared or held.
    """

    prompts: tuple[Prompt, ...]
    leaves: tuple[Node, ...]
    shared: NDArray[np.int64]
    """What each has in common with the one before."""
    common: NDArray[np.int64]
    """What every replica holds of each."""
    held: NDArray[np.int64]
    """What the replicas hold that hold most of each."""
    holders: tuple[frozenset[int], ...]
    """These replicas."""
    fresh: NDArray[np.float64]
    """Seconds that each takes where nothing of it is held."""
    token_seconds: float
    """Seconds saved by each token that is."""

    @classmethod
    def of(cls, fleet: Fleet, prompts: Sequence[Prompt]) -> Self:
        """Put prompts into the tree, and line them up."""
        size = fleet.tree.block_tokens
        leaves = [fleet.insert(prompt) for prompt in prompts]
        order = _in_order(leaves)
        prompts, leaves = [prompts[i] for i in order], [leaves[i] for i in order]
        most = np.array([max(0, prompt.count - 1) // size for prompt in prompts])
        shared, common, held, holders = _walk(leaves, frozenset(fleet.up))
        rates = fleet.rates
        return cls(
            tuple(prompts),
            tuple(leaves),
            np.minimum(shared, most) * size,
            np.minimum(common, most) * size,
            np.minimum(held, most) * size,
            tuple(holders),
            np.array([rates.prefill(p.count) + rates.decode(fleet.answer_tokens(p)) for p in prompts]),
            _saved(rates),
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def between(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what prompts at some places, in order, share with the one before among these; 0 for the first."""
        starts = np.concatenate(([0], places[:-1] + 1))
        found: NDArray[np.int64] = np.minimum.reduceat(self.shared[: places[-1] + 1], starts)
        found[0] = 0
        return found

    def seconds(self, shared: NDArray[np.int64], places: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return what prompts take that share so much with the one before."""
        fresh, common = (self.fresh, self.common) if places is None else (self.fresh[places], self.common[places])
        found: NDArray[np.float64] = fresh - self.token_seconds * np.maximum(shared, common)
        return found

    def again(self, shared: NDArray[np.int64], places: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return what of this each takes more where it does not follow the one before."""
        common = self.common if places is None else self.common[places]
        found: NDArray[np.float64] = self.token_seconds * np.maximum(0, shared - common)
        return found


def _saved(rates: Rates) -> float:
    return max(0.0, rates.computed - rates.cached)


def _in_order(leaves: Sequence[Node]) -> list[int]:
    """Return the places of leaves, those below one node side by side, by the first that came of each branch."""
    seen: dict[Node, int] = {}
    keys = [tuple(seen.setdefault(node, len(seen)) for node in leaf.path()) for leaf in leaves]
    return sorted(range(len(keys)), key=lambda place: keys[place])


def _walk(
    leaves: Sequence[Node], up: frozenset[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[frozenset[int]]]:
    """Return for each leaf in blocks: what it shares with the one before, all hold, most is held; and who holds that.

    `levels` has for each node of the way to the leaf what all hold, the most held, and who holds that.
    """
    shared = np.zeros(len(leaves), dtype=np.int64)
    common, held = shared.copy(), shared.copy()
    holders: list[frozenset[int]] = []
    path: list[Node] = []
    levels: list[tuple[int, _Holders]] = []
    for place, leaf in enumerate(leaves):
        new = leaf.path()
        depth = 0
        while depth < min(len(path), len(new)) and path[depth] is new[depth]:
            depth += 1
        shared[place] = new[depth - 1].end if depth else 0
        del levels[depth:]
        for node in new[depth:]:
            levels.append(_level(node, levels[-1] if levels else (0, (0, up)), len(up)))
        path = new
        common[place], (held[place], who) = levels[-1] if levels else (0, (0, up))
        holders.append(who)
    return shared, common, held, holders


def _level(node: Node, above: tuple[int, _Holders], replicas: int) -> tuple[int, _Holders]:
    """Return at a node what all hold, and the most held and by whom, from the same one above it."""
    common, (most, who) = above
    if most < node.start:
        return above
    leading = {replica: node.leading(replica) for replica in who & node.replicas()}
    if not leading:
        return above
    if len(leading) == replicas:
        common = node.start + min(leading.values())
    best = max(leading.values())
    return common, (node.start + best, frozenset(replica for replica, blocks in leading.items() if blocks == best))
