"""What one replica's prefix cache is thought to hold, or known to: an LRU estimate, or the engine's own account."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from flightllm.router.tree import Node, PrefixTree

_STALE: Final = 64
"""Edges that may be in the order of use though nothing of them is held."""


class ReplicaCache:
    """One replica's part of the tree, in blocks. One thread at a time.

    Without `exact` every prompt that the replica answered counts as held, and the least recently used edges go when
    there are more blocks than `capacity`, ends before beginnings. With it only `hold` and `drop` change what is held,
    and the order of use serves to foresee what will go next. What prompts under way need does not go.
    """

    def __init__(self, tree: PrefixTree, replica: int, capacity: int | None, *, exact: bool = False) -> None:
        self._tree = tree
        self._replica = replica
        self.capacity = capacity
        self.exact = exact
        self.used = 0
        """Blocks held."""
        self._order: OrderedDict[Node, None] = OrderedDict()
        """Least recently used first. A node that was split off above one of these may be missing, and one be there of
        which a split left nothing held."""

    def begin(self, leaf: Node) -> None:
        """Keep the way to a node, which a prompt under way needs, from going."""
        for node in leaf.up():
            self._order.pop(node, None)

    def end(self, node: Node, *, computed: bool) -> None:
        """Count an edge as used until now, without `exact` as held if it was computed; `trim` after the last one."""
        if computed and not self.exact:
            self.hold(node, (1 << node.blocks) - 1)
        if self._is_idle(node):
            self._order[node] = None
            self._order.move_to_end(node)

    def trim(self) -> None:
        """Without `exact`, let the least recently used edges go that are too many."""
        if not self.exact and self.capacity is not None:
            while self.used > self.capacity and self._order:
                self._evict()

    def holds(self, node: Node, block: int) -> bool:
        """Tell whether a block of an edge is held."""
        return bool(node.held.get(self._replica, 0) >> block & 1)

    def hold(self, node: Node, bits: int) -> None:
        """Count some blocks of an edge as held."""
        before = node.held.get(self._replica, 0)
        if bits & ~before:
            node.held[self._replica] = before | bits
            self.used += (bits & ~before).bit_count()
            if self.exact and self._replica not in node.open:
                self._order.setdefault(node)
                if len(self._order) > 2 * self.used + _STALE:  # edges of which a split left nothing
                    self._order = OrderedDict((one, None) for one in self._order if self._replica in one.held)

    def drop(self, node: Node, bits: int) -> None:
        """Count some blocks of an edge as gone."""
        before = node.held.get(self._replica, 0)
        self.used -= (before & bits).bit_count()
        if before & ~bits:
            node.held[self._replica] = before & ~bits
        elif before:
            del node.held[self._replica]
            self._order.pop(node, None)
            self._tree.prune(node)

    def victims(self, blocks: int) -> Iterator[Node]:
        """Yield the edges that would go, least recently used first, to make room for so many blocks."""
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
        """Forget all that is held."""
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
