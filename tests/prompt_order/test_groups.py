"""Groups of rows are found as the tables in the docstrings show."""

import numpy as np
import pytest

from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.groups import (
    GroupScore,
    Paths,
    _find_candidates,
    _Level,
    _renumber,
    _sort_into_runs,
    build_groups,
)
from flightllm.prompt_order.sequence import FlatDictionary

FILM, GENRE, REVIEW = range(3)


def three_rows() -> Encoded:
    """Return rows of a film (50 tokens), a genre (5) and a review (20): two rows about one film, all of one genre."""
    codes = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 2]], dtype=np.int32)
    return Encoded(codes, (np.full(2, 50.0), np.full(1, 5.0), np.full(3, 20.0)), (1, 1, 1))


def weights(encoded: Encoded) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the tokens of each row's values."""
    return np.stack([encoded.weights[column][encoded.codes[:, column]] for column in range(3)], axis=1)


def one_group() -> _Level:
    """Return the level that has all three rows in one group."""
    return _Level(np.arange(3), np.zeros(3, dtype=np.int64))


def test_the_example_of_build_groups() -> None:
    """All rows begin with the genre; two rows go on with their film, in a group of their own."""
    encoded = three_rows()
    paths = build_groups(encoded, FlatDictionary.of(encoded), GroupScore(2.0, determined=False))
    fields = [order[:depth].tolist() for order, depth in zip(paths.fields, paths.depth, strict=True)]
    assert fields == [[GENRE, FILM], [GENRE, FILM], [GENRE]]
    assert paths.group.tolist() == [1, 1, 0]


def test_the_example_of_find_candidates() -> None:
    """One candidate, the film of two rows; the genre is given to all rows at once."""
    encoded, paths = three_rows(), Paths((3, 3))
    found = _find_candidates(encoded, weights(encoded), one_group(), paths, GroupScore(2.0, determined=False))
    assert found.index.tolist() == [[0, -1, -1], [0, -1, -1], [-1, -1, -1]]
    assert (found.weight.tolist(), found.size.tolist()) == ([2500, 0], [2, 0])
    assert (paths.fields[:, 0].tolist(), paths.depth.tolist()) == ([GENRE] * 3, [1] * 3)


def test_fields_that_another_one_determines_count() -> None:
    """A director that is equal in all rows of a film adds its tokens to the film's, and the film adds its own."""
    codes = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 2]], dtype=np.int32)
    encoded = Encoded(codes, (np.full(2, 50.0), np.full(2, 8.0), np.full(3, 20.0)), (1, 1, 1))
    level, paths = one_group(), Paths((3, 3))
    found = _find_candidates(encoded, weights(encoded), level, paths, GroupScore(1.0, determined=True))
    assert found.weight.tolist() == [58, 58, 0]


@pytest.mark.parametrize(("used", "rows", "lengths"), [(False, [1, 0, 2], [1, 2]), (True, [1, 2], [1, 1])])
def test_the_example_of_sort_into_runs(used: bool, rows: list[int], lengths: list[int]) -> None:
    """Rows are sorted by value; a row that has been given the field is left out."""
    encoded = Encoded(np.array([[1], [0], [1]], dtype=np.int32), (np.ones(2),), (1,))
    paths = Paths((3, 1))
    paths.used[0] = used
    runs = _sort_into_runs(encoded, one_group(), paths, 0)
    assert (runs.rows.tolist(), runs.starts.tolist(), runs.lengths.tolist()) == (rows, [0, 1], lengths)


def test_chosen_candidates_are_renumbered() -> None:
    """The numbers have no gaps and keep their order."""
    assert _renumber(np.array([5, 2, 5]), 7).tolist() == [1, 0, 1]
