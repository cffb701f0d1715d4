"""Predicted hits against a count on the prompts themselves."""

from collections import OrderedDict

import numpy as np
import pytest

from flightllm.prompt_order.base import CacheShape, Encoded, Method, Ordering
from flightllm.prompt_order.ordering import order


def skewed(rows: int = 1500) -> Encoded:
    """Return tuples of a few popular long values, some middling ones and one that is unique."""
    random = np.random.default_rng(1)
    codes = np.stack([random.zipf(1.4, rows) % 60, random.integers(0, 300, rows), np.arange(rows)], axis=1)
    weights = (np.full(60, 70.0), np.full(300, 25.0), np.full(rows, 30.0))
    return Encoded(codes.astype(np.int32), weights, (1, 1, 1))


def count(encoded: Encoded, ordering: Ordering, cache: CacheShape, running: int = 0) -> float:
    """Send the prompts to a cache of blocks, least recently used first out; hits beyond the instruction's blocks.

    A prompt's blocks can be hit by prompts sent more than `running` places later.
    """
    kept: OrderedDict[tuple[tuple[int, ...], int], int] = OrderedDict()
    hits = 0.0
    for place, (row, pattern) in enumerate(zip(ordering.rows, ordering.pattern, strict=True)):
        prefix: tuple[int, ...] = ()
        end, block, hit = cache.shared_tokens, int(cache.shared_tokens // cache.block_tokens), True
        for column in ordering.patterns[pattern]:
            code = int(encoded.codes[row, column])
            if code < 0:
                continue
            prefix += (column, code)
            end += float(encoded.weights[column][code])
            while (block + 1) * cache.block_tokens <= end:
                found = kept.pop((prefix, block), None)
                hit = hit and found is not None and place - found > running
                hits += cache.block_tokens * hit
                kept[prefix, block] = place if found is None else found
                block += 1
        while cache.blocks is not None and len(kept) > cache.blocks:
            kept.popitem(last=False)
    return hits


@pytest.mark.parametrize("method", ["none", "fixed", "greedy"])
@pytest.mark.parametrize("shared", [0.0, 37.0])
def test_an_unlimited_cache_is_predicted_exactly(method: Method, shared: float) -> None:
    """Every prefix that comes again is a hit, in whole blocks."""
    encoded, cache = skewed(), CacheShape(16, None, shared)
    found = order(encoded, method, cache)
    assert found.hit_tokens == pytest.approx(count(encoded, found, cache))


@pytest.mark.parametrize("method", ["none", "fixed", "greedy"])
@pytest.mark.parametrize("blocks", [50, 200, 1000])
def test_a_finite_cache_is_predicted_within_five_points(method: Method, blocks: int) -> None:
    """The working-set estimate follows what is really evicted."""
    encoded, cache = skewed(), CacheShape(16, blocks)
    found = order(encoded, method, cache)
    assert found.hit_tokens / found.total_tokens == pytest.approx(
        count(encoded, found, cache) / found.total_tokens, abs=0.05
    )


def test_a_sorted_order_needs_little_cache() -> None:
    """Groups stand together: a cache of a few prompts serves what one without limit does."""
    encoded = skewed()
    small = order(encoded, "greedy", CacheShape(16, 40))
    assert small.hit_tokens == order(encoded, "greedy", CacheShape(16)).hit_tokens


def test_null_fields_take_no_place() -> None:
    """Prompts that differ in where a NULL stands are the same."""
    codes = np.array([[-1, 0, 0], [0, -1, 0], [-1, 0, 1]], dtype=np.int32)
    encoded = Encoded(codes, (np.full(1, 10.0), np.full(1, 20.0), np.full(2, 30.0)), (1, 1, 1))
    found = order(encoded, "none", CacheShape(1))
    assert found.hit_tokens == 20
    assert found.total_tokens == 20 + 30 + 10 + 30 + 20 + 30


def test_leaders_ahead_serve_prompts_that_run_at_once() -> None:
    """With 16 requests running, groups of 4 whose first prompt is ahead find its blocks; in plain order they do not."""
    codes = np.stack([np.repeat(np.arange(100), 4), np.arange(400)], axis=1).astype(np.int32)
    encoded, cache = Encoded(codes, (np.full(100, 64.0), np.full(400, 32.0)), (1, 1)), CacheShape(16, 2000)
    plain, ahead = order(encoded, "greedy", cache), order(encoded, "greedy", cache, window=16)
    assert count(encoded, plain, cache, running=16) == 0
    assert count(encoded, ahead, cache, running=12) > 0.9 * count(encoded, plain, cache)
    assert count(encoded, ahead, cache) == count(encoded, plain, cache)


def test_leaders_stay_where_the_cache_is_small() -> None:
    """A cache of one prompt would forget a leader: the order is left alone."""
    encoded, cache = skewed(), CacheShape(16, 12)
    assert order(encoded, "greedy", cache, window=64).rows.tolist() == order(encoded, "greedy", cache).rows.tolist()
