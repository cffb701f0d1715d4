"""The tree of prompts: what its places save, and that moves leave nothing behind."""

import numpy as np
import pytest

from flightllm.prompt_order.base import CacheShape
from flightllm.prompt_order.prompt_tree import Node, PromptTree

WEIGHTS = [0.0, 50.0, 40.0, 5.0, 20.0, 21.0, 22.0]
"""Two films (1 and 2), a genre (3), and three reviews."""
ROWS = np.array([[3, 1, 4], [3, 1, 5], [3, 2, 6]])


def tree(cache: CacheShape | None = None) -> PromptTree:
    """Return the tree of three rows: two share genre and film, the third one the genre."""
    return PromptTree(ROWS, WEIGHTS, [-1, 1, 1, 0, 2, 2, 2], [0.0, 3.0, 0.0], cache or CacheShape(1, None, 10.0))


def shape(node: Node) -> object:
    """Return the edges below a node, in a form without an order."""
    return node.edge, frozenset(shape(child) for child in node.children)


def test_shared_values_are_edges() -> None:
    """Each edge has the values that all rows below it share."""
    found = tree()
    [genre] = found.root.children
    assert genre.edge == {3}
    assert genre.tokens == 15
    assert {child.edge for child in genre.children} == {frozenset({1}), frozenset({2, 6})}
    assert [found.path(leaf) for leaf in found.leaves] == found.values


def test_starts_of_values_count_while_their_field_is_free() -> None:
    """What branches off before the film shares three tokens of its name, and nothing of it after the film."""
    found = tree(CacheShape(16, None, 14.0))
    assert [round(found.saves(14.0, columns)) for columns in (0, 1, 2)] == [16, 16, 0]


def test_out_and_in_again_is_the_same_tree() -> None:
    """A prompt that is put back finds its place, and no node stays with one child."""
    found = tree()
    before = shape(found.root)
    for row, leaf in enumerate(found.leaves):
        lost = found.detach(leaf)
        assert all(len(node.children) != 1 for node in found.inner())
        assert found.attach(leaf, found.values[row], found.find(found.values[row])) == lost
        assert shape(found.root) == before


def test_a_prompt_goes_where_it_saves_the_most() -> None:
    """A prompt in the wrong place moves to the edge that it shares the most with."""
    found = tree()
    leaf = found.leaves[1]
    found.detach(leaf)
    found.attach(leaf, found.values[1], found.at_root())
    found.detach(leaf)
    place = found.find(found.values[1])
    assert place.tokens == 65
    assert place.common == frozenset({1})


def test_the_root_stays() -> None:
    """Nothing can take the root out."""
    found = tree()
    with pytest.raises(ValueError, match="the root"):
        found.detach(found.root)
