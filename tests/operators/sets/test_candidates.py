"""Pairs of texts that can be the same."""

import numpy as np
import pytest

from bench.dirty_records import make
from flightllm.errors import CancelledError
from flightllm.operators.sets.candidates import similar_pairs


def test_duplicates_are_among_the_pairs() -> None:
    """Nearly all pairs of spellings of one thing are found in a large table, and few other pairs."""
    records = make(2_000, 0.2, seed=3)
    pairs = similar_pairs(records.texts, 4_000, 5, 0.3, lambda: False)
    things = np.array(records.things)
    found = int((things[pairs.left] == things[pairs.right]).sum())
    sizes = np.bincount(things)
    assert found >= 0.95 * int((sizes * (sizes - 1) // 2).sum())
    assert len(pairs) <= 4_000
    assert (np.diff(pairs.scores) <= 0).all()
    assert (pairs.left < pairs.right).all()


def test_equal_texts_need_no_table_of_pairs() -> None:
    """Texts that share all their keys meet only their neighbours, so pairs grow linearly."""
    texts = [f"the same long company name {number}" for number in range(3_000)]
    pairs = similar_pairs(texts, 6_000, 5, 0.3, lambda: False)
    assert 1_000 <= len(pairs) <= 6_000


@pytest.mark.parametrize("texts", [[], ["one"], ["one", "two"], ["", " "], ["!", "?"]])
def test_few_texts(texts: list[str]) -> None:
    """No text, one text, and texts without letters have no similar pairs."""
    assert len(similar_pairs(texts, 10, 5, 0.3, lambda: False)) == 0


def test_a_cancelled_query_stops() -> None:
    """The search polls whether the query was cancelled."""
    with pytest.raises(CancelledError):
        similar_pairs(["a b", "a c"], 4, 2, 0.3, lambda: True)
