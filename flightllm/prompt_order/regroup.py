"""Improve an order of rows and fields: take prompts out of its tree, and put them where they share the most.

Three kinds of moves are tried while they save enough tokens:

- Each prompt, and each group of prompts with what they share, moves to the place where it shares the most tokens.
- All prompts with one value form a group, and each goes on to a better place if there is one.
- A group ends, and each of its prompts goes elsewhere.

The rules follow from the tree: a child of a node saves what the cache serves of the node's values, whatever is below.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.prompt_tree import Node, PromptTree
from flightllm.prompt_order.sequence import FlatDictionary, sort_rows, whole_blocks
from flightllm.prompt_order.uniform import score_columns

MOST_CELLS: Final = 300_000
"""The most rows × columns: beyond, a tree takes too much memory and time."""
_MOST_VISITS, _VISITS_PER_ROW = 3_000_000, 200
"""The most nodes to look at, in all and for each row."""
_LOOKED_AT: Final = 5_000
_LEAST_SAVED: Final = 0.01
"""A kind of move ends when the last `_LOOKED_AT` nodes gave fewer tokens per node: an engine computes them sooner."""
_ROUNDS: Final = 4
_MOST_OF_VALUE, _MOST_OF_GROUP = 200, 60
"""The most prompts of a value, and of a group, that move together."""
_LEAST: Final = 1e-7
"""A smaller saving is a rounding error."""


def regrouped(encoded: Encoded, draft: Draft, cache: CacheShape) -> Draft:
    """Return a draft that saves at least as many tokens, if running prompts share what they compute."""
    flat = FlatDictionary.of(encoded)
    sequence = flat.sequence(encoded.codes[draft.rows], draft.fields)
    places = sort_rows(sequence)
    column_of = np.searchsorted(flat.offsets, np.arange(flat.offsets[-1]), "right") - 1
    tree = PromptTree(sequence[places], flat.weights.tolist(), column_of.tolist(), _starts(flat), cache)
    _Moves(tree).make()
    fields = _fields(tree, encoded, flat, column_of, cache)
    rows = draft.rows[places]
    order = sort_rows(flat.sequence(encoded.codes[rows], fields))
    return Draft(rows[order], fields[order], draft.method)


def _starts(flat: FlatDictionary) -> list[float]:
    """Return for each column the tokens that all of its values share at their starts."""
    if flat.overlaps is None:
        return []
    found = []
    for begin, end in pairwise(flat.offsets.tolist()):
        shared = flat.overlaps[begin + 1 : end]
        found.append(float(shared.min()) if len(shared) else 0.0)
    return found


class _Moves:
    """The moves in a tree, until they save little for the nodes that they look at."""

    def __init__(self, tree: PromptTree) -> None:
        self._tree = tree
        self._rows = {leaf: row for row, leaf in enumerate(tree.leaves)}
        self._of_value: dict[int, list[int]] = {}
        for row, values in enumerate(tree.values):
            for value in values:
                self._of_value.setdefault(value, []).append(row)
        self._saved = 0.0
        self._mark = 0.0, 0
        """The tokens saved and the nodes looked at when `_go_on` last decided."""
        self._ends = False
        self._most = min(_MOST_VISITS, _VISITS_PER_ROW * len(tree.leaves))

    def make(self) -> None:
        """Make moves of all kinds until a round saves nothing."""
        for _ in range(_ROUNDS):
            before = self._saved
            for kind in (self._move_groups, self._move_prompts, self._gather, self._dissolve):
                self._mark, self._ends = (self._saved, self._tree.visits), False
                kind()
            if self._saved < before + 1.0:
                return

    def _goes_on(self) -> bool:
        """Return whether the present kind of move has lately saved enough for its work."""
        visits = self._tree.visits - self._mark[1]
        if visits >= _LOOKED_AT and not self._ends:
            self._ends = self._saved - self._mark[0] < visits * _LEAST_SAVED or self._tree.visits > self._most
            self._mark = self._saved, self._tree.visits
        return not self._ends

    def _move_groups(self) -> None:
        """Move each group with what its prompts share to its best place."""
        for node in self._tree.inner():
            if node.parent is not None and node.children and self._goes_on():
                self._move(node, self._tree.path(node))

    def _move_prompts(self) -> None:
        """Move each prompt to its best place."""
        for leaf, values in zip(self._tree.leaves, self._tree.values, strict=True):
            if self._goes_on():
                self._move(leaf, values)

    def _move(self, node: Node, values: frozenset[int]) -> None:
        tree = self._tree
        path = tree.path(node.parent)
        lost = tree.detach(node)
        place = tree.find(values)
        if place.saves < lost + _LEAST:  # a search that looks at a part of the children can miss the old place
            place = tree.find(path, None)
        self._saved += tree.attach(node, values, place) - lost

    def _gather(self) -> None:
        """Try a group for each value, those that can save the most first."""
        most = {value: self._tree.weights[value] * (len(rows) - 1) for value, rows in self._of_value.items()}
        for value in sorted(most, key=lambda one: (-most[one], one)):
            rows = self._of_value[value]
            if len(rows) in range(2, _MOST_OF_VALUE + 1) and self._goes_on():
                self._try(rows, apart=True)

    def _dissolve(self) -> None:
        """Try to end each small group."""
        for node in self._tree.inner():
            if node.parent is None or not node.children:
                continue  # an earlier move ended it
            rows = [self._rows[one] for one in self._tree.below(node) if not one.children]
            if len(rows) <= _MOST_OF_GROUP and self._goes_on():
                self._try(rows, apart=False)

    def _try(self, rows: Sequence[int], *, apart: bool) -> None:
        """Take prompts out and put each one at its best place, the first one `apart`; undo this if it saves nothing."""
        tree = self._tree
        were, saved = [], 0.0
        for row in rows:
            leaf = tree.leaves[row]
            were.append(tree.path(leaf.parent))
            saved -= tree.detach(leaf)
        for number, row in enumerate(rows):
            place = tree.at_root() if apart and not number else tree.find(tree.values[row])
            saved += tree.attach(tree.leaves[row], tree.values[row], place)
        for row in rows:  # the first ones did not know the others
            leaf, values = tree.leaves[row], tree.values[row]
            saved -= tree.detach(leaf)
            saved += tree.attach(leaf, values, tree.find(values))
        if saved > _LEAST:
            self._saved += saved
            return
        for row in rows:
            tree.detach(tree.leaves[row])
        for row, path in zip(reversed(rows), reversed(were), strict=True):
            tree.attach(tree.leaves[row], tree.values[row], tree.find(path, None))


def _fields(
    tree: PromptTree, encoded: Encoded, flat: FlatDictionary, column_of: NDArray[np.int64], cache: CacheShape
) -> NDArray[np.int16]:
    """Return the fields of each leaf in prompt order: edge by edge, then the fields without a value.

    The first field of the edges below a node is the one whose unequal values share the most tokens at their starts.
    """
    columns = encoded.codes.shape[1]
    ranks = np.empty(columns, dtype=np.int64)
    ranks[score_columns(encoded)] = np.arange(columns)
    ranks_of = ranks.tolist()
    nodes = list(tree.below(tree.root))
    above = [node.parent for node in nodes]
    number_of: dict[Node | None, int] = {node: number for number, node in enumerate(dict.fromkeys(above))}
    parents = np.array([number_of[node] for node in above], dtype=np.int64)
    tokens = np.array([node.tokens for node in number_of if node is not None])
    values = np.zeros((len(nodes), columns), dtype=np.int64)
    for place, node in enumerate(nodes):
        own = list(node.edge)
        values[place, column_of[own]] = own
    ahead = _first_columns(values, parents, tokens, flat, cache).tolist()
    fields = np.empty((len(tree.leaves), columns), dtype=np.int16)
    columns_of = column_of.tolist()
    written: dict[Node, list[int]] = {}
    for node, first in zip(nodes, ahead, strict=True):
        edge = sorted(columns_of[one] for one in node.edge)
        written[node] = sorted(edge, key=lambda column: (column != first, ranks_of[column]))
    for row, leaf in enumerate(tree.leaves):
        own, at = written[leaf], leaf.parent
        while at is not None and at is not tree.root:
            own, at = written[at] + own, at.parent
        fields[row] = [*own, *(column for column in range(columns) if column not in own)]
    return fields


def _first_columns(
    values: NDArray[np.int64],
    parents: NDArray[np.int64],
    tokens: NDArray[np.float64],
    flat: FlatDictionary,
    cache: CacheShape,
) -> NDArray[np.int64]:
    """Return for each edge the column that comes first, or -1: unequal values of it share tokens at their starts.

    `values` are the numbers on each edge by column, 0 where the edge has no such field. Below each parent, one column
    comes first on all edges that have it: the column that shares the most tokens. The next best column is first on
    other edges.
    """
    first = np.full(len(values), -1, dtype=np.int64)
    base = whole_blocks(tokens, cache)
    for _ in range(values.shape[1]):
        gains = np.zeros((len(tokens), values.shape[1]))
        for column in range(values.shape[1]):
            edges = np.flatnonzero(values[:, column] * (first < 0))
            edges = edges[np.lexsort((values[edges, column], parents[edges]))]
            numbers, parent = values[edges, column], parents[edges]
            same = np.flatnonzero(parent[1:] == parent[:-1])
            part = flat.partial(numbers[same], numbers[same + 1])
            gain = whole_blocks(tokens[parent[same]] + part, cache) - base[parent[same]]
            gains[:, column] = np.bincount(parent[same], weights=gain, minlength=len(tokens))
        best = np.where(gains.max(axis=1, initial=0.0) > 0, gains.argmax(axis=1), -1)[parents]
        chosen = (first < 0) & (best >= 0) & (values[np.arange(len(values)), best] > 0)
        if not chosen.any():
            break
        first[chosen] = best[chosen]
    return first
