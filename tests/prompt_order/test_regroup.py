"""Prompts that move in their tree: never worse, near the optimum on small tables, and the same again."""

from functools import cache as remembered

import numpy as np
import pytest

from flightllm.prompt_order import regroup
from flightllm.prompt_order.base import CacheShape, Encoded
from flightllm.prompt_order.greedy import greedy
from flightllm.prompt_order.ordering import order
from flightllm.prompt_order.regroup import regrouped
from flightllm.prompt_order.sequence import hit_tokens, measured, whole_blocks
from flightllm.prompt_order.uniform import as_given, by_score

CACHES = (CacheShape(1), CacheShape(16, None, 5.0), CacheShape(4, None, 10.0, 24))


def random_table(seed: int, rows: int = 9, columns: int = 4, values: int = 4, overlap: int = 0) -> Encoded:
    """Return distinct rows with NULLs, whose sorted values share starts of up to `overlap` tokens."""
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(-1, random.integers(1, values + 1), rows) for _ in range(columns)], axis=1)
    weights = tuple(random.integers(3, 60, values).astype(np.float64) for _ in range(columns))
    overlaps = tuple(np.append(0.0, random.integers(0, overlap + 1, values - 1)).astype(float) for _ in range(columns))
    return Encoded(np.unique(codes, axis=0).astype(np.int32), weights, (1,) * columns, overlaps if overlap else ())


def optimum(encoded: Encoded, cache: CacheShape) -> float:
    """Return the most tokens of whole fields beyond the instruction that any order serves, from all trees of rows.

    Two sets of prompts that part can share at most the fields that are equal in all of them.
    """
    rows = [{(column, int(code)) for column, code in enumerate(row) if code >= 0} for row in encoded.codes.astype(int)]

    @remembered
    def best(chosen: int) -> float:
        own = [row for number, row in enumerate(rows) if chosen >> number & 1]
        if len(own) < 2:
            return 0.0
        shared = sum(float(encoded.weights[column][code]) for column, code in set.intersection(*own))
        served = float(whole_blocks(cache.shared_tokens + shared, cache) - whole_blocks(cache.shared_tokens, cache))
        lowest, found, part = chosen & -chosen, 0.0, (chosen - 1) & chosen
        while part:
            if part & lowest:
                found = max(found, best(part) + best(chosen ^ part))
            part = (part - 1) & chosen
        return found + served

    return best((1 << len(rows)) - 1)


@pytest.mark.parametrize("cache", CACHES)
def test_near_the_optimum(cache: CacheShape) -> None:
    """From the worst and the best start, the moves come within two percent of what no order exceeds."""
    reached = dict.fromkeys(("given", "greedy"), 0.0)
    most = 0.0
    for seed in range(25):
        encoded = random_table(seed)
        best = optimum(encoded, cache)
        most += best
        for name, start in (("given", as_given(encoded)), ("greedy", greedy(encoded, cache))):
            found = hit_tokens(measured(encoded, regrouped(encoded, start, cache), cache))
            assert found <= best + 1e-6
            reached[name] += found
    assert reached["given"] > 0.96 * most
    assert reached["greedy"] > 0.98 * most


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cache", CACHES)
def test_every_row_and_field_stays(seed: int, cache: CacheShape) -> None:
    """The result is a permutation of the rows with all fields of each, and equal for equal input."""
    encoded = random_table(seed, rows=200, columns=5, values=30, overlap=20)
    draft = by_score(encoded)
    found = regrouped(encoded, draft, cache)
    assert sorted(found.rows.tolist()) == list(range(len(encoded.codes)))
    assert (np.sort(found.fields, axis=1) == np.arange(5)).all()
    again = regrouped(encoded, draft, cache)
    assert (again.rows.tolist(), again.fields.tolist()) == (found.rows.tolist(), found.fields.tolist())


@pytest.mark.parametrize("running", [1, 16])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_never_worse_with_moves(seed: int, running: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order without the moves stays where they serve less, as for prompts that share nothing while they run."""
    encoded = random_table(seed, rows=150, columns=5, values=20, overlap=20)
    cache = CacheShape(16, 300, 20.0)
    found = order(encoded, "greedy", cache, running).hit_tokens
    monkeypatch.setattr("flightllm.prompt_order.greedy.MOST_CELLS", 0)
    assert found >= order(encoded, "greedy", cache, running).hit_tokens


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves end early where each saves little, and the order is whole then, too."""
    encoded = random_table(1, rows=400, columns=5, values=40)
    monkeypatch.setattr(regroup, "_LOOKED_AT", 50)
    monkeypatch.setattr(regroup, "_MOST_VISITS", 100)
    found = regrouped(encoded, by_score(encoded), CACHES[0])
    assert sorted(found.rows.tolist()) == list(range(len(encoded.codes)))


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows(rows: int) -> None:
    """One row, and two that share nothing, keep all fields."""
    codes = np.array([[0, -1], [1, -1]][:rows], dtype=np.int32)
    encoded = Encoded(codes, (np.array([3.0, 4.0]), np.zeros(0)), (1, 1))
    found = regrouped(encoded, as_given(encoded), CACHES[1])
    assert sorted(found.rows.tolist()) == list(range(rows))
