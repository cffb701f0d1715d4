"""A tree of prompts. All prompts below a node share the values on its edges; the values of one edge have no order yet.

Example: three rows, whose fields are a film, a genre and a review. The first two have the film and the genre in common,
so they are below one node, whose edge is {film, genre}. Which of both comes first does not matter to the cache.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from flightllm.prompt_order.base import CacheShape
from flightllm.prompt_order.sequence import Sequence as Numbers
from flightllm.prompt_order.sequence import shared_fields, whole_blocks

_LOOKED_AT: Final = 16
"""Among the children that have a value on their edges, so many are tried: more of them share little else."""


class Node:
    """A prompt, or the values that several prompts share. The tree changes it."""

    __slots__ = ("by_value", "children", "columns", "edge", "parent", "saves", "tokens")

    def __init__(self, edge: frozenset[int], tokens: float, columns: int, saves: float) -> None:
        self.edge = edge
        """The values that come after those of the parent, as numbers of `FlatDictionary`."""
        self.tokens = tokens
        """The tokens of the instruction and of all values down to here."""
        self.columns = columns
        """The columns of all values down to here, a bit each."""
        self.saves = saves
        """The tokens that each child but one saves; see `PromptTree.saves`."""
        self.parent: Node | None = None
        self.children: dict[Node, None] = {}
        self.by_value: dict[int, list[Node]] = {}
        """The children whose edges have a value."""


class Place(NamedTuple):
    """Where a prompt can branch off: at `node`, or on the edge of `node` after the `common` values."""

    saves: float
    tokens: float
    columns: int
    node: Node
    common: frozenset[int] | None


class PromptTree:
    """The tree of the rows of `sequence`, which are sorted; `leaves` has the node of each row.

    `column_of` has the column of each value. `starts` has for each column the tokens that all of its values share at
    their starts.
    """

    def __init__(
        self,
        sequence: Numbers,
        weights: Sequence[float],
        column_of: Sequence[int],
        starts: Sequence[float],
        cache: CacheShape,
    ) -> None:
        self.weights = weights
        self._bits = [1 << max(column, 0) for column in column_of]
        self._starts = starts
        self._longest_start = max(starts, default=0.0)
        self._cache = cache
        self._saves: dict[float, float] = {}
        self._start: dict[int, float] = {}
        self.root = Node(frozenset(), cache.shared_tokens, 0, self.saves(cache.shared_tokens, 0))
        self.visits = 0
        """The nodes that searches have looked at."""
        self.values = [frozenset(value for value in row if value) for row in sequence.tolist()]
        """The values of each row."""
        self.leaves: list[Node] = []
        self._build(sequence)

    def saves(self, tokens: float, columns: int) -> float:
        """Return the tokens that a prompt saves by branching off after `tokens`, the values of these `columns`.

        The next field can be the one whose values share the most tokens at their start. Tokens that fill no block
        count a trifle.
        """
        start = self._start.get(columns)
        if start is None:
            free = (start for column, start in enumerate(self._starts) if not columns >> column & 1)
            start = self._start[columns] = max(free, default=0.0)
        found = self._saves.get(tokens + start)
        if found is None:
            found = float(whole_blocks(tokens + start, self._cache)) + 1e-6 * tokens
            self._saves[tokens + start] = found
        return found

    def inner(self) -> list[Node]:
        """Return the nodes with children, without the root."""
        return [node for node in self.below(self.root) if node.children]

    def below(self, node: Node) -> Iterator[Node]:
        """Yield all nodes below a node."""
        stack = list(node.children)
        while stack:
            one = stack.pop()
            yield one
            stack.extend(one.children)

    def path(self, node: Node | None) -> frozenset[int]:
        """Return all values down to a node."""
        found: set[int] = set()
        while node is not None:
            found |= node.edge
            node = node.parent
        return frozenset(found)

    def find(self, values: frozenset[int], most: int | None = _LOOKED_AT) -> Place:
        """Return the place at which a prompt with these values saves the most tokens.

        Of the children with a value, at most the first `most` are looked at; None looks at all of them.
        """
        weight, bit = self.weights.__getitem__, self._bits.__getitem__
        best = self.at_root()
        enough = best.tokens - self._longest_start
        stack = [(self.root, values)]
        while stack:
            node, left = stack.pop()
            by_value, tokens = node.by_value, node.tokens
            seen: set[Node] = set()
            for value in left:
                for child in by_value.get(value, ())[:most]:
                    if child in seen:
                        continue
                    seen.add(child)
                    common = child.edge & left
                    shared = tokens + sum(map(weight, common))
                    whole = len(common) == len(child.edge) and bool(child.children)
                    if shared > enough:
                        columns = node.columns | sum(map(bit, common))
                        if (saves := self.saves(shared, columns)) > best.saves:
                            best = Place(saves, shared, columns, child, None if whole else common)
                            enough = shared - self._longest_start
                    if whole:
                        stack.append((child, left - common))
            self.visits += len(seen) + 1
        return best

    def at_root(self) -> Place:
        """Return the place of a prompt that shares no value."""
        return Place(self.root.saves, self.root.tokens, 0, self.root, None)

    def attach(self, node: Node, values: frozenset[int], place: Place) -> float:
        """Put a detached node with its values at a place; return the tokens that this saves."""
        at = place.node
        if place.common is not None:
            above = self._unlink(at)
            middle = Node(place.common, place.tokens, place.columns, place.saves)
            self._link(above, middle)
            at.edge -= place.common
            self._link(middle, at)
            at = middle
        node.edge = values - self.path(at)
        self._link(at, node)
        return at.saves

    def detach(self, node: Node) -> float:
        """Take a node out with all that is below it; return the tokens that this loses."""
        above = self._unlink(node)
        higher = above.parent
        if len(above.children) == 1 and higher is not None:
            only = next(iter(above.children))
            self._unlink(above)
            self._unlink(only)
            only.edge |= above.edge
            self._link(higher, only)
        return above.saves

    def _link(self, above: Node, node: Node) -> None:
        node.parent = above
        above.children[node] = None
        for value in node.edge:
            above.by_value.setdefault(value, []).append(node)

    def _unlink(self, node: Node) -> Node:
        above = node.parent
        if above is None:
            raise ValueError("the root of a tree of prompts cannot be taken out")
        node.parent = None
        del above.children[node]
        for value in node.edge:
            own = above.by_value[value]
            own.remove(node)
            if not own:
                del above.by_value[value]
        return above

    def _build(self, sequence: Numbers) -> None:
        """Add each row below the node of all fields that it shares with the row before."""
        path, depths = [self.root], [0]
        for row, shared in zip(sequence.tolist(), shared_fields(sequence).tolist(), strict=True):
            values = [value for value in row if value]
            depth, last = min(shared, len(values)), self.root
            while depths[-1] > depth or (self.leaves and path[-1] is self.leaves[-1]):
                last = path.pop()
                depths.pop()
            if depths[-1] < depth:
                common = frozenset(values[depths[-1] : depth])
                above = self._unlink(last)
                middle = self._node(above, common)
                self._link(above, middle)
                last.edge -= common
                self._link(middle, last)
                path.append(middle)
                depths.append(depth)
            leaf = self._node(path[-1], frozenset(values[depth:]))
            self._link(path[-1], leaf)
            self.leaves.append(leaf)
            path.append(leaf)
            depths.append(len(values))

    def _node(self, above: Node, edge: frozenset[int]) -> Node:
        tokens = above.tokens + sum(self.weights[value] for value in edge)
        columns = above.columns | sum(self._bits[value] for value in edge)
        return Node(edge, tokens, columns, self.saves(tokens, columns))
