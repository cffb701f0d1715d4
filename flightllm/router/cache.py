"""The contents of one replica's prefix cache: an LRU estimate, or the truth from the engine's KV events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from flightllm.router.tree import Node, PrefixTree

_STALE: Final = 64
"""How many edges without held blocks the order of use can contain before it is cleaned."""


class ReplicaCache:
    """The part of the tree that one replica holds, in blocks. One thread at a time.

    Without `exact`, the blocks of every prompt that the replica answered count as held. When there are more blocks than
    `capacity`, the least recently used edges are evicted, lower edges before upper ones. With `exact`, only `hold` and
    `drop` change the held blocks; the order of use predicts the next evictions. Edges that unanswered prompts need are
    never evicted.
    """

    def __init__(self, tree: PrefixTree, replica: int, capacity: int | None, *, exact: bool = False) -> None:
        self._tree = tree
        self._replica = replica
        self.capacity = capacity
        self.exact = exact
        self.used = 0
        """The number of held blocks."""
        self._order: OrderedDict[Node, None] = OrderedDict()
        """The idle edges, least recently used first.

        After a split, the new upper node can be missing here, and a node can be here that has no held block.
        """

    def begin(self, leaf: Node) -> None:
        """Protect a node and the nodes above it from eviction: an unanswered prompt needs them."""
        for node in leaf.up():
            self._order.pop(node, None)

    def end(self, node: Node, *, computed: bool) -> None:
        """Count an edge as used until now; call `trim` after the last edge.

        Without `exact`, an edge that was `computed` counts as held.
        """
        if computed and not self.exact:
            self.hold(node, (1 << node.blocks) - 1)
        if self._is_idle(node):
            self._order[node] = None
            self._order.move_to_end(node)

    def trim(self) -> None:
        """Evict the least recently used edges above `capacity`; with `exact`, do nothing."""
        if not self.exact and self.capacity is not None:
            while self.used > self.capacity and self._order:
                self._evict()

    def follow(self, exact: bool) -> None:  # noqa: FBT001 - a callback of `KvSubscription`
        """Switch between the engine's KV events (`exact`) and the estimate."""
        self.exact = exact

    def holds(self, node: Node, block: int) -> bool:
        """Return whether the replica holds a block of an edge."""
        return bool(node.held.get(self._replica, 0) >> block & 1)

    def hold(self, node: Node, bits: int) -> None:
        """Count some blocks of an edge as held: bit 0 of `bits` is the first block."""
        before = node.held.get(self._replica, 0)
        if bits & ~before:
            node.held[self._replica] = before | bits
            self.used += (bits & ~before).bit_count()
            if self.exact and self._replica not in node.open:
                self._order.setdefault(node)
                if len(self._order) > 2 * self.used + _STALE:  # splits left edges without held blocks
                    self._order = OrderedDict((one, None) for one in self._order if self._replica in one.held)

    def drop(self, node: Node, bits: int) -> None:
        """Count some blocks of an edge as evicted: bit 0 of `bits` is the first block."""
        before = node.held.get(self._replica, 0)
        self.used -= (before & bits).bit_count()
        if before & ~bits:
            node.held[self._replica] = before & ~bits
        elif before:
            del node.held[self._replica]
            self._order.pop(node, None)
            self._tree.prune(node)

    def victims(self, blocks: int) -> Iterator[Node]:
        """Yield the edges to evict to make room for this many blocks, least recently used first."""
        missing = 0 if self.capacity is None else self.used + blocks - self.capacity
        if missing <= 0:
            return
        for node in self._order:
            held = node.held.get(self._replica, 0)
            if held:
                yield node
                missing -= held.bit_count()
                if missing <= 0:
                    return

    def clear(self) -> None:
        """Forget all held blocks."""
        for node in self._tree.walk():
            if self._replica in node.held:
                self.drop(node, node.held[self._replica])
        self._order.clear()

    def _evict(self) -> None:
        node, _ = self._order.popitem(last=False)
        self.drop(node, node.held.get(self._replica, 0))
        above = node.parent
        if above is not None and self._is_idle(above) and above not in self._order:
            self._order[above] = None
            self._order.move_to_end(above, last=False)

    def _is_idle(self, node: Node) -> bool:
        return self._replica in node.held and self._replica not in node.open
