"""Follow an engine's own account of its prefix cache, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from flightllm.router.cache import ReplicaCache
from flightllm.router.tree import TOKEN_BYTES, Node, PrefixTree

BlockHash: TypeAlias = bytes | int


class KvMirror:
    """Put one replica's blocks, which it names by hashes, into the tree, and take them out. One thread at a time.

    A block whose parent is unknown, because the account was not heard from its beginning, is left out, and so are those
    that follow it: what the tree says is held is held.
    """

    def __init__(self, tree: PrefixTree, cache: ReplicaCache) -> None:
        self._tree = tree
        self._cache = cache
        self._places: dict[BlockHash, tuple[Node, int]] = {}
        """Where each block ends: its depth in blocks, and a node that had it once, so that it or one above has it."""
        self.unknown = 0
        """Blocks left out so far."""
        self.other_tokens: int | None = None
        """How many tokens those blocks had that were left out because the tree's have more or fewer; None: none was."""

    def __len__(self) -> int:
        """Return how many blocks are held."""
        return len(self._places)

    def stored(self, hashes: Sequence[BlockHash], parent: BlockHash | None, tokens: bytes, salt: bytes = b"") -> None:
        """Note that blocks are held: consecutive ones, after `parent` (None: the beginning), with these tokens."""
        if len(tokens) != len(hashes) * self._tree.block_tokens * TOKEN_BYTES:
            self.unknown += len(hashes)
            self.other_tokens = len(tokens) // (TOKEN_BYTES * max(1, len(hashes)))
            return
        node, depth = self._tree.root(salt), 0
        if parent is not None:
            place = self._places.get(parent)
            node, depth = (node, 0) if place is None else _at(*place)
            # What was forgotten of the replica by another way may not be in the tree any more.
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
        """Note that blocks are gone; those that are not known are passed over."""
        for block in hashes:
            place = self._places.pop(block, None)
            if place is not None:
                node, end = _at(*place)
                self._cache.drop(node, 1 << (end - 1 - node.start))

    def cleared(self) -> None:
        """Note that the cache is empty, or that nothing is known of it any more."""
        self._places.clear()
        self._cache.clear()


def _at(node: Node, end: int) -> tuple[Node, int]:
    """Return the node whose edge has a block now."""
    while node.start >= end and node.parent is not None:
        node = node.parent
    return node, end
