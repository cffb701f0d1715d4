"""The first of many items are found by orders of few of them."""

import math
import random
from collections.abc import Sequence

import pytest

from flightllm.operators.sets.rank_forecast import SimulatedModel
from flightllm.operators.sets.rank_select import Window, rank


def found(items: int, wanted: int, window: int, noise: float = 0.0, seed: int = 0) -> tuple[list[int], int]:
    """Return the true places of the first items that the selection finds, and the calls."""
    order = random.Random(seed + 1_000).sample(range(items), items)  # noqa: S311
    item_at = {place: item for item, place in enumerate(order)}
    model = SimulatedModel(noise, seed)

    def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        assert all(1 < len(set(one)) == len(one) <= window for one in windows)
        orders = model([tuple(order[item] for item in one) for one in windows])
        return [None if one is None else [item_at[place] for place in one] for one in orders]

    ranked = rank(items, wanted, window, compare)
    assert not ranked.unanswered or items < 2
    return [order[item] for item in ranked.first[:wanted]], model.calls


@pytest.mark.parametrize("window", [2, 3, 5, 10, 50])
@pytest.mark.parametrize(("items", "wanted"), [(2, 1), (3, 3), (7, 2), (40, 40), (97, 5), (200, 100), (300, 10)])
def test_without_errors(items: int, wanted: int, window: int) -> None:
    """A model without errors gives the exact first items in their order, whatever the window."""
    assert found(items, wanted, window)[0] == list(range(wanted))


@pytest.mark.parametrize(("items", "calls"), [(0, 0), (1, 0), (2, 2), (3, 6), (10, 4)])
def test_few_items(items: int, calls: int) -> None:
    """A single item costs nothing, few items have all their pairs, and one window is asked about four times."""
    assert found(items, items, 10 if items == 10 else 2) == (list(range(items)), calls)


def test_nothing_wanted() -> None:
    """Without a wanted item nothing is asked."""
    assert found(50, 0, 10) == ([], 0)


def test_repeats() -> None:
    """Equal arguments make equal windows, so that kept answers are found again."""
    asked: list[list[Window]] = [[], []]
    for windows in asked:
        rank(80, 5, 10, lambda some, kept=windows: kept.extend(some) or [sorted(one) for one in some])  # type: ignore[misc]
    assert asked[0] == asked[1]


def test_wrong_answers() -> None:
    """With a tenth of the comparisons wrong, the first ten of 1,000 are found by under half the calls of a heap."""
    runs = [found(1_000, 10, 10, noise=0.1, seed=seed) for seed in range(5)]
    recall = sum(len(set(first) & set(range(10))) for first, _ in runs) / 50
    assert recall >= 0.9
    assert sum(calls for _, calls in runs) / 5 < 900


@pytest.mark.parametrize("window", [2, 10])
def test_useless_answers(window: int) -> None:
    """A model that always answers in the order of the prompt ends too, after a bounded number of calls."""
    calls = 0

    def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        nonlocal calls
        calls += len(windows)
        return list(windows)

    assert len(rank(200, 200, window, compare).first) == 200
    assert len(rank(200, 5, window, compare).first) >= 5
    assert calls < 200 * 50


def test_large_windows_fail() -> None:
    """Windows without an answer are asked again in smaller ones, and later windows are smaller from the start."""
    sizes: list[int] = []

    def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        sizes.extend(map(len, windows))
        return [sorted(one) if len(one) <= 4 else None for one in windows]

    assert list(rank(120, 5, 16, compare).first[:5]) == list(range(5))
    assert max(sizes[len(sizes) // 2 :]) <= 4


def test_one_item_fails() -> None:
    """An item whose windows all fail is unanswered; the others keep their order."""

    def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        return [None if 3 in one else sorted(one) for one in windows]

    ranked = rank(8, 8, 4, compare)
    assert ranked.unanswered == {3}
    assert ranked.first == [0, 1, 2, 4, 5, 6, 7]


def test_nothing_answers() -> None:
    """Without any answer, all items are unanswered."""
    ranked = rank(30, 5, 10, lambda windows: [None] * len(windows))
    assert list(ranked.first) == []
    assert ranked.unanswered == frozenset(range(30))


@pytest.mark.parametrize("window", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("items", [9, 31, 60, 150])
def test_all_items_without_errors(items: int, window: int) -> None:
    """The order of all items is exact for each seed, by a bounded number of calls."""
    for seed in range(12):
        places, calls = found(items, items, window, seed=seed)
        assert places == list(range(items))
        assert calls <= 4 * items * math.log2(items)


@pytest.mark.parametrize("window", [2, 3])
def test_many_items_without_errors(window: int) -> None:
    """It is so for many items too."""
    for seed in range(2):
        places, calls = found(700, 700, window, seed=seed)
        assert places == list(range(700))
        assert calls <= 4 * 700 * math.log2(700)


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.5])
def test_calls_with_errors(noise: float) -> None:
    """Errors of the model cost a bounded number of calls, even if its answers tell nothing."""
    for window in (2, 3, 5, 10):
        assert found(200, 200, window, noise)[1] <= 6 * 200 * math.log2(200)
