"""Sort a batch of prompts so that neighbours share the longest prefixes, and predict the seconds of each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from flightllm.llm.cost import Rates
from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node


@dataclass(frozen=True, slots=True)
class PrefixSortedBatch:
    """Prompts in the order of the prefix tree; the branches below a node are in the order of their first prompts.

    Prompts that arrive in such an order keep it. All arrays have one entry for each prompt. Sizes are in tokens; only
    whole blocks count as shared or held.

    Example: blocks of 4 tokens, prompts of 9 tokens, two replicas. Replica 1 holds the block 1111. A prompt without any
    cached token takes 7.5 s, and each cached token saves 0.25 s. The prompts arrived in the order first, other, second.

    | prompt              | shared_tokens | common_tokens | held_tokens | holders | seconds | extra_seconds |
    |---------------------|---------------|---------------|-------------|---------|---------|---------------|
    | first:  1111 2222 3 | 0             | 0             | 4           | {1}     | 7.5     | 0             |
    | second: 1111 2222 4 | 8             | 0             | 4           | {1}     | 5.5     | 2             |
    | other:  9999 9999 9 | 0             | 0             | 0           | {0, 1}  | 7.5     | 0             |
    """

    prompts: tuple[RoutedPrompt, ...]
    leaves: tuple[Node, ...]
    """The node of the prefix tree at which each prompt's whole blocks end."""
    shared_tokens: NDArray[np.int64]
    """The prefix that each prompt shares with its predecessor."""
    common_tokens: NDArray[np.int64]
    """The prefix of each prompt that every replica holds."""
    held_tokens: NDArray[np.int64]
    """The longest prefix of each prompt that some replica holds."""
    holders: tuple[frozenset[int], ...]
    """The replicas that hold this longest prefix; all replicas if it is empty."""
    uncached_seconds: NDArray[np.float64]
    """The seconds that each prompt takes if no token of the prompt is cached."""
    seconds_per_cached_token: float
    """The seconds that each cached token saves."""

    @classmethod
    def of(cls, fleet: Fleet, prompts: Sequence[RoutedPrompt]) -> Self:
        """Insert prompts into the fleet's prefix tree, and sort them by it."""
        block_tokens = fleet.tree.block_tokens
        leaves = [fleet.insert(prompt) for prompt in prompts]
        order = _tree_order(leaves)
        prompts, leaves = [prompts[i] for i in order], [leaves[i] for i in order]
        # An engine always computes the last token, so a block that ends with this token is never served by the cache.
        usable_blocks = np.array([max(0, prompt.count - 1) // block_tokens for prompt in prompts])
        prefixes = _prefixes(leaves, frozenset(fleet.up))
        rates = fleet.rates
        return cls(
            tuple(prompts),
            tuple(leaves),
            np.minimum(prefixes.shared_blocks, usable_blocks) * block_tokens,
            np.minimum(prefixes.common_blocks, usable_blocks) * block_tokens,
            np.minimum(prefixes.held_blocks, usable_blocks) * block_tokens,
            tuple(prefixes.holders),
            np.array([rates.prefill(p.count) + rates.decode(fleet.answer_tokens(p)) for p in prompts]),
            _saved_seconds(rates),
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def shared_among(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens that each prompt shares with its predecessor, if only some prompts are left.

        `positions` are ascending. The first prompt shares nothing. Two prompts share the least that any neighbours
        between them share: with shared tokens 0, 8, 4, 8, the prompts at 0, 2 and 3 share 0, min(8, 4) = 4 and 8.
        """
        starts = np.concatenate(([0], positions[:-1] + 1))
        shared: NDArray[np.int64] = np.minimum.reduceat(self.shared_tokens[: positions[-1] + 1], starts)
        shared[0] = 0
        return shared

    def seconds(self, shared: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return the seconds of each prompt (at `positions`) if it follows a predecessor that shares so many tokens."""
        uncached, common = self.uncached_seconds, self.common_tokens
        if positions is not None:
            uncached, common = uncached[positions], common[positions]
        seconds: NDArray[np.float64] = uncached - self.seconds_per_cached_token * np.maximum(shared, common)
        return seconds

    def extra_seconds(
        self, shared: NDArray[np.int64], positions: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return the extra seconds that each prompt costs if its predecessor ran on another replica."""
        common = self.common_tokens if positions is None else self.common_tokens[positions]
        extra: NDArray[np.float64] = self.seconds_per_cached_token * np.maximum(0, shared - common)
        return extra


def _saved_seconds(rates: Rates) -> float:
    return max(0.0, rates.computed - rates.cached)


def _tree_order(leaves: Sequence[Node]) -> list[int]:
    """Return the positions of leaves in tree order; the branches below a node are in the order of their first leaves.

    Example: the paths to three leaves, where a node's number says how many other nodes were seen before it.

    | position | path | numbers | order |
    |----------|------|---------|-------|
    | 0        | a, b | 0, 1    | 0     |
    | 1        | c    | 2       | 2     |
    | 2        | a, d | 0, 3    | 1     |
    """
    number: dict[Node, int] = {}
    keys = [tuple(number.setdefault(node, len(number)) for node in leaf.path()) for leaf in leaves]
    return sorted(range(len(keys)), key=lambda position: keys[position])


class _Held(NamedTuple):
    """How many blocks the replicas hold without a gap, on the way from the root to one node."""

    by_all: int
    """Blocks that every replica holds."""
    most: int
    holders: frozenset[int]
    """The replicas that hold `most` blocks."""


class _Prefixes(NamedTuple):
    """By prompt, in blocks: see the fields of `PrefixSortedBatch`."""

    shared_blocks: NDArray[np.int64]
    common_blocks: NDArray[np.int64]
    held_blocks: NDArray[np.int64]
    holders: list[frozenset[int]]


def _prefixes(leaves: Sequence[Node], up: frozenset[int]) -> _Prefixes:
    """Return what each leaf shares with the leaf before, and what the replicas that are `up` hold of it.

    Neighbours share most nodes, so what the replicas hold at the nodes of the current path is kept on a stack.
    """
    shared, common, held = (np.zeros(len(leaves), dtype=np.int64) for _ in range(3))
    holders: list[frozenset[int]] = []
    path: list[Node] = []
    stack: list[_Held] = []
    at_root = _Held(0, 0, up)
    for position, leaf in enumerate(leaves):
        new_path = leaf.path()
        depth = 0
        while depth < min(len(path), len(new_path)) and path[depth] is new_path[depth]:
            depth += 1
        shared[position] = new_path[depth - 1].end if depth else 0
        del stack[depth:]
        for node in new_path[depth:]:
            stack.append(_held_at(node, stack[-1] if stack else at_root, len(up)))
        path = new_path
        common[position], held[position], leaf_holders = stack[-1] if stack else at_root
        holders.append(leaf_holders)
    return _Prefixes(shared, common, held, holders)


def _held_at(node: Node, above: _Held, replicas: int) -> _Held:
    """Return what the replicas hold down to a node; `above` is what they hold down to its parent."""
    if above.most < node.start:
        return above  # there is a gap above the node already
    leading = {replica: node.leading(replica) for replica in above.holders & node.replicas()}
    if not leading:
        return above
    by_all = node.start + min(leading.values()) if len(leading) == replicas else above.by_all
    best = max(leading.values())
    holders = frozenset(replica for replica, blocks in leading.items() if blocks == best)
    return _Held(by_all, node.start + best, holders)
