"""Mirror an engine's prefix cache in the tree, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from flightllm.router.cache import ReplicaCache
from flightllm.router.tree import TOKEN_BYTES, Node, PrefixTree

BlockHash: TypeAlias = bytes | int


class KvMirror:
    """A mirror of one replica's cache, which names blocks by hashes. One thread at a time.

    The parent of a block is unknown where earlier events were missed. Such a block is ignored, and so are the blocks
    after it. So each block that the tree counts as held is in the cache.
    """

    def __init__(self, tree: PrefixTree, cache: ReplicaCache) -> None:
        self._tree = tree
        self._cache = cache
        self._places: dict[BlockHash, tuple[Node, int]] = {}
        """By hash, a node and the depth in blocks at which the block ends.

        The node contained the block at some time; after splits, this node or a node above it contains the block.
        """
        self.unknown = 0
        """The number of ignored blocks so far."""
        self.other_tokens: int | None = None
        """The block size of the last blocks that were ignored because the tree has another block size, or None."""

    def __len__(self) -> int:
        """Return the number of held blocks."""
        return len(self._places)

    def stored(self, hashes: Sequence[BlockHash], parent: BlockHash | None, tokens: bytes, salt: bytes = b"") -> None:
        """Count consecutive blocks as held. They have these tokens, and follow `parent` (None: the prompt's start)."""
        if len(tokens) != len(hashes) * self._tree.block_tokens * TOKEN_BYTES:
            self.unknown += len(hashes)
            self.other_tokens = len(tokens) // (TOKEN_BYTES * max(1, len(hashes)))
            return
        node, depth = self._tree.root(salt), 0
        if parent is not None:
            place = self._places.get(parent)
            node, depth = (node, 0) if place is None else _at(*place)
            # The cache can have dropped the parent's block without an event, so that the tree no longer contains it.
            if place is None or not self._cache.holds(node, depth - 1 - node.start):
                self.unknown += len(hashes)
                return
        leaf = self._tree.extend(node, depth - node.start, tokens)
        part = leaf
        for end, block in zip(range(leaf.end, depth, -1), reversed(hashes), strict=True):
            while part.start >= end and part.parent is not None:
                part = part.parent
            self._places[block] = part, end
            self._cache.hold(part, 1 << (end - 1 - part.start))

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        """Count blocks as evicted; ignore unknown blocks."""
        for block in hashes:
            place = self._places.pop(block, None)
            if place is not None:
                node, end = _at(*place)
                self._cache.drop(node, 1 << (end - 1 - node.start))

    def cleared(self) -> None:
        """Forget all blocks: the cache is empty, or its contents are unknown."""
        self._places.clear()
        self._cache.clear()


def _at(node: Node, end: int) -> tuple[Node, int]:
    """Return the node whose edge now contains the block that ends at depth `end`, and `end`."""
    while node.start >= end and node.parent is not None:
        node = node.parent
    return node, end
