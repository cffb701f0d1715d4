"""Verdicts by classes: the pairs of rows of each pair of values, of all pairs and of some of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from flightllm.operators.joins.candidates import AllPairs, Candidates, merged
from flightllm.operators.joins.classes import ACCEPT, ASK, REJECT, Classes, Draws, Near, with_verdict
from flightllm.operators.joins.values import Ints, Values


def _candidates(*, some: bool) -> Candidates:
    """Return the pairs of six left and five right rows over four values, all or those with a lower left number."""
    values = Values()
    left = values.number([("a",), ("b",), ("a",), ("c",), ("b",), ("a",)], 0)
    right = values.number([("c",), ("d",), ("a",), ("d",), ("d",)], 1)
    values.settle()
    if not some:
        left, right = values.settled[left], values.settled[right]
        return AllPairs(np.unique(left), np.unique(right), values)
    pairs = [(a, b) for a in left.tolist() for b in right.tolist() if a < b]
    columns = [pa.array(column, pa.int64()) for column in zip(*pairs, strict=True)]
    return merged([pa.RecordBatch.from_arrays(columns, ["a", "b"])], values)


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("verdict", [ACCEPT, REJECT, ASK])
def test_rows_of_pairs(*, some: bool, verdict: int) -> None:
    """The rows of each pair of values are as many as the ranks that lead to it."""
    classes = Classes(
        np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0]), np.array([[ACCEPT, REJECT], [ASK, ACCEPT]], np.int8)
    )
    found = with_verdict(_candidates(some=some), classes, verdict)
    pairs = np.concatenate([np.empty(0, np.int64), *found.blocks(3)])
    by_rank, counts = np.unique(found.pairs_of(np.arange(found.rows)), return_counts=True)
    assert sorted(pairs.tolist()) == by_rank.tolist()
    assert found.rows_of(by_rank).tolist() == counts.tolist()


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("verdict", [ACCEPT, REJECT, ASK])
def test_rows_of_near_pairs(*, some: bool, verdict: int) -> None:
    """It is so for near pairs too, and for the pairs that are not near."""
    candidates = _candidates(some=some)
    near = np.sort(np.concatenate(list(candidates.blocks(100)))[::2])
    found = with_verdict(candidates, Near(near), verdict)
    by_rank, counts = np.unique(found.pairs_of(np.arange(found.rows)), return_counts=True)
    assert found.rows_of(by_rank).tolist() == counts.tolist()


@dataclass
class _Counted:
    """Verdicts about many pairs of rows, which count how often somebody asks for the number of rows."""

    there: int
    asked: int = 0

    @property
    def rows(self) -> int:
        self.asked += 1
        return self.there

    def pairs_of(self, ranks: Ints) -> Ints:
        return ranks

    def rows_of(self, pairs: Ints) -> Ints:
        return np.ones_like(pairs)

    def blocks(self, size: int) -> Iterator[Ints]:
        del size
        yield np.arange(self.there)


@pytest.mark.parametrize("rows", [40_000, 400_000, 10**10])
def test_draws_are_distinct_and_even(rows: int) -> None:
    """No row is drawn twice, each part of the rows has its share, and the number of rows is read once."""
    verdicts = _Counted(rows)
    draws = Draws(verdicts, 7)
    parts = [draws.next(count) for count in (32, 8, 20_000, 1, 10_000)]
    assert [len(part) for part in parts] == [32, 8, 20_000, 1, 10_000]
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    assert every.min() >= 0
    assert every.max() < rows
    counts = np.bincount(every * 10 // rows, minlength=10)
    assert np.abs(counts / len(every) - 0.1).max() < 0.02
    assert verdicts.asked == 1
    again = Draws(_Counted(rows), 7)
    assert np.array_equal(again.next(32), parts[0])
