"""Runs that are cut by content."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.operators.sets.cuts import rank, runs


def _cut(items: list[str], capacity: int) -> list[list[str]]:
    sizes, ranks = [len(item) for item in items], [rank(item, 0) for item in items]
    return [items[run.start : run.stop] for run in runs(sizes, ranks, capacity)]


def test_the_example() -> None:
    """The example of the docstring."""
    assert list(runs([1] * 6, [3, 5, 9, 2, 7, 1], 4)) == [range(3), range(3, 6)]


@given(st.lists(st.text("abc", min_size=1, max_size=9), max_size=60), st.integers(9, 40))
def test_all_items_in_runs_that_fit(items: list[str], capacity: int) -> None:
    """Runs have all items in their order, none is too large, and each takes as much as half a run or cannot."""
    found = _cut(items, capacity)
    assert [item for run in found for item in run] == items
    assert all(sum(map(len, run)) <= capacity for run in found)
    for run, after in pairwise(found):
        assert sum(map(len, run)) * 2 >= capacity or sum(map(len, [*run, after[0]])) > capacity


def test_an_edit_moves_few_cuts() -> None:
    """A new item in a long sequence changes one run in most places, and the runs after it soon are the same again."""
    items = sorted(f"row {number * 7919 % 10_007}" for number in range(2_000))
    before, changed = {tuple(run) for run in _cut(items, 300)}, list[int]()
    for number in range(100):
        edited = sorted([*items, f"row {number * 131} new"])
        changed.append(sum(tuple(run) not in before for run in _cut(edited, 300)))
    assert sorted(changed)[50] == 1
    assert max(changed) <= 12


def test_runs_of_two() -> None:
    """Runs of at most two are cut by content as well: pairs would all shift by one."""
    items = [f"{number}" for number in range(40)]
    before = {tuple(run) for run in [items[r.start : r.stop] for r in runs([1] * 40, [rank(i, 1) for i in items], 2)]}
    edited = ["new", *items]
    after = [edited[r.start : r.stop] for r in runs([1] * 41, [rank(i, 1) for i in edited], 2)]
    assert len(before) < 40
    assert sum(tuple(run) not in before for run in after) < 12


def test_too_large() -> None:
    """An item that fits into no run is an error."""
    with pytest.raises(ValueError, match="an item of 5 is larger than 4"):
        list(runs([1, 5], [0, 0], 4))


def test_ranks() -> None:
    """Equal items have equal ranks on a level, and other ranks on another level."""
    assert rank("a", 1) == rank("a", 1) != rank("a", 2)
    assert rank("\ud800", 0) != rank("a", 0)
