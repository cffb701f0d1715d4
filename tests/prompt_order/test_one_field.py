"""The best tree with one next field for each group, against a search of all such trees."""

from functools import partial

import numpy as np
import pytest

from flightllm.prompt_order import one_field
from flightllm.prompt_order.base import CacheShape, Encoded
from flightllm.prompt_order.one_field import one_field_per_group
from flightllm.prompt_order.sequence import hit_tokens, measured
from tests.counting import steps

CACHES = (CacheShape(1), CacheShape(16, None, 5.0), CacheShape(4, None, 10.0, 24))


def random_table(seed: int, rows: int = 14, columns: int = 4) -> Encoded:
    """Return distinct rows with NULLs, whose sorted values share random starts."""
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(-1, random.integers(1, 5), rows) for _ in range(columns)], axis=1)
    codes = np.unique(codes, axis=0)
    weights = tuple(random.integers(3, 40, 5).astype(np.float64) for _ in range(columns))
    overlaps = tuple(np.append(0.0, random.integers(0, 3, 4)).astype(np.float64) for _ in range(columns))
    return Encoded(codes.astype(np.int32), weights, (1,) * columns, overlaps)


def most(encoded: Encoded, cache: CacheShape) -> float:
    """Return the most tokens beyond the instruction's blocks that any tree of this kind serves."""

    def served(tokens: float) -> float:
        tokens = 0.0 if tokens < cache.floor_tokens else tokens
        return tokens // cache.block_tokens * cache.block_tokens

    def best(rows: list[int], free: frozenset[int], tokens: float) -> float:
        found = 0.0
        for column in free if len(rows) > 1 else ():
            values = sorted({int(code) for code in encoded.codes[rows, column]})
            total, before = 0.0, -1
            for value in values:
                own = [row for row in rows if encoded.codes[row, column] == value]
                longer = tokens + (float(encoded.weights[column][value]) if value >= 0 else 0.0)
                total += (len(own) - 1) * (served(longer) - served(tokens)) + best(own, free - {column}, longer)
                if before >= 0:
                    part = float(encoded.overlaps[column][before + 1 : value + 1].min())
                    total += served(tokens + part) - served(tokens)
                before = value
            found = max(found, total)
        return found

    rows, columns = encoded.codes.shape
    return best(list(range(rows)), frozenset(range(columns)), cache.shared_tokens)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cache", CACHES)
def test_no_tree_serves_more(seed: int, cache: CacheShape) -> None:
    """The order found reaches the most that a search of all trees finds."""
    encoded = random_table(seed)
    draft = one_field_per_group(encoded, cache)
    assert draft is not None
    assert sorted(draft.rows.tolist()) == list(range(len(encoded.codes)))
    assert hit_tokens(measured(encoded, draft, cache)) == pytest.approx(most(encoded, cache))


def test_a_short_field_completes_a_block() -> None:
    """Ten tokens fill no block of 16, so the field with six more tokens comes before the one with four."""
    codes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]], dtype=np.int32)
    encoded = Encoded(codes, (np.array([10.0]), np.full(2, 4.0), np.full(2, 6.0)), (1, 1, 1))
    draft = one_field_per_group(encoded, CacheShape(16))
    assert draft is not None
    assert {tuple(fields) for fields in draft.fields.tolist()} == {(0, 2, 1)}
    assert hit_tokens(measured(encoded, draft, CacheShape(16))) == 2 * 16


def test_a_large_table_tries_its_best_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two fields, the two with the highest scores are tried; with less room, none."""
    encoded = random_table(3)
    monkeypatch.setattr(one_field, "_MOST_CELLS", 4 * len(encoded.codes))
    draft = one_field_per_group(encoded, CacheShape(1))
    assert draft is not None
    assert all(sorted(fields) == [0, 1, 2, 3] for fields in draft.fields.tolist())
    monkeypatch.setattr(one_field, "_MOST_CELLS", 2 * len(encoded.codes))
    assert one_field_per_group(encoded, CacheShape(1)) is None


def test_a_table_of_one_row_or_none() -> None:
    """Nothing is shared, and every row keeps all of its fields."""
    for rows in (0, 1):
        encoded = Encoded(np.zeros((rows, 2), dtype=np.int32), (np.ones(1), np.ones(1)), (1, 1))
        draft = one_field_per_group(encoded, CacheShape())
        assert draft is not None
        assert draft.fields.shape == (rows, 2)


def test_many_fields() -> None:
    """The work does not double with each field: a table of few rows can have many."""
    few, many = (partial(one_field_per_group, random_table(3, 6, columns), CACHES[0]) for columns in (11, 18))
    assert steps(many) < 3 * steps(few)
