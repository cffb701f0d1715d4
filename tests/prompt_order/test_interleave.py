"""Leaders ahead of their groups, on a simulated engine whose running prompts do not share what they compute."""

import numpy as np
import pytest

from flightllm.engines.prefix import PrefixSimulator, SimulatedRequest, chained
from flightllm.llm.engine import PrefixCache
from flightllm.prompt_order.base import CacheShape, Encoded, Ordering
from flightllm.prompt_order.ordering import order

_HEAD, _OWN = 128, 64
"""Tokens that the prompts of a group share, and tokens of each prompt alone."""
_WINDOW = 32


def groups(count: int = 60, size: int = 8) -> Encoded:
    """Return prompts in groups of `size`."""
    codes = np.stack([np.repeat(np.arange(count), size), np.arange(count * size)], axis=1)
    weights = (np.full(count, float(_HEAD)), np.full(count * size, float(_OWN)))
    return Encoded(codes.astype(np.int32), weights, (1, 1))


def computed(encoded: Encoded, ordering: Ordering, blocks: int, answer_tokens: int) -> int:
    """Return the prompt tokens that the engine computes for prompts in this order."""
    engine = PrefixSimulator(PrefixCache(16, blocks, at_once=False), _WINDOW)
    for place, row in enumerate(ordering.rows.tolist()):
        group, own = encoded.codes[row].tolist()
        parts = [*((group, i) for i in range(_HEAD // 16)), *(("own", own, i) for i in range(_OWN // 16))]
        engine.add(SimulatedRequest(place, chained(iter(parts)), _HEAD + _OWN, answer_tokens))
    total = 0
    while engine.in_flight:
        engine.step()
        total += engine.computed
    return total


@pytest.mark.parametrize("answer_tokens", [2, 40])
@pytest.mark.parametrize("blocks", [120, 240, 600, 6_000])
def test_leaders_ahead_save_tokens_in_a_cache_of_any_size(blocks: int, answer_tokens: int) -> None:
    """From a cache of 10 prompts to one of all prompts, at least a tenth less is computed than in plain order."""
    encoded = groups()
    cache = CacheShape(16, blocks)
    plain, ahead = order(encoded, "rows", cache), order(encoded, "rows", cache, _WINDOW)
    assert computed(encoded, ahead, blocks, answer_tokens) < 0.9 * computed(encoded, plain, blocks, answer_tokens)


def test_with_room_for_the_window_each_prefix_is_computed_about_once() -> None:
    """Two windows of prompts fit into the cache: nearly all that groups share is found."""
    encoded = groups()
    cache = CacheShape(16, 800)
    least = 60 * _HEAD + 480 * _OWN
    assert computed(encoded, order(encoded, "rows", cache, _WINDOW), 800, 2) < 1.1 * least
