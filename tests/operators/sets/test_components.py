"""Groups that pairs connect, and their bridges."""

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.sets.components import bridges, components, kept_of


def _sides(edges: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    found = np.array(edges, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def test_components_and_bridges() -> None:
    """Two triangles with an edge between them are one group, and hang on this edge."""
    left, right = _sides([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5), (7, 8)])
    assert components(9, left, right).tolist() == [0, 0, 0, 0, 0, 0, 6, 7, 7]
    assert np.flatnonzero(bridges(9, left, right)).tolist() == [3, 7]


def test_bridges_are_those_of_the_definition() -> None:
    """Without a bridge, and only without a bridge, a graph has one more group: on random graphs."""
    chance = np.random.default_rng(1)
    for _ in range(50):
        count = int(chance.integers(2, 12))
        drawn = {tuple(sorted(chance.choice(count, 2, replace=False).tolist())) for _ in range(chance.integers(1, 16))}
        left, right = _sides([(one, other) for one, other in sorted(drawn)])
        groups = len(set(components(count, left, right).tolist()))
        expected = []
        for edge in range(len(left)):
            rest = np.arange(len(left)) != edge
            expected.append(len(set(components(count, left[rest], right[rest]).tolist())) > groups)
        assert bridges(count, left, right).tolist() == expected


def test_a_long_chain_needs_no_recursion() -> None:
    """A chain of many nodes is one group of bridges."""
    left = np.arange(50_000)
    assert bridges(50_001, left, left + 1).all()
    assert not components(50_001, left, left + 1).any()


def test_the_kept_text_has_the_most_rows() -> None:
    """A group keeps the text with the most rows, then the longest, then the first of the alphabet."""
    groups = np.array([0, 0, 2, 2, 4, 4])
    texts = ["ab", "a", "abc", "a", "x", "w"]
    assert kept_of(groups, texts, np.array([1, 2, 1, 1, 3, 3])) == ["a", "a", "abc", "abc", "w", "w"]
