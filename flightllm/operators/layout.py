"""Decide whether prompts begin with the instruction or the fields, by the tokens that each layout computes."""

from collections.abc import Sequence

from flightllm.llm.engine import PrefixCache
from flightllm.prompt_order.base import Ordering

_KEPT = 0.5
"""The assumed share of rows that a filter keeps."""


def reach(filters_before: Sequence[int]) -> list[float]:
    """Return the assumed share of rows that each call sees, from the number of filters before it."""
    return [_KEPT**filters for filters in filters_before]


def fields_first(
    ordering: Ordering,
    instructions: Sequence[float],
    reached: Sequence[float],
    cache: PrefixCache | None,
    window: int,
) -> bool:
    """Return whether calls of the same fields compute fewer tokens with the fields first.

    With the instruction first, each call computes the fields that the cache does not have. With the fields first, only
    the first call computes them. But then each call computes its instruction, and on average half an unshared block.
    `instructions` are the tokens of each call's instruction, and `reached` the share of rows that each call sees.
    """
    calls, tuples = len(instructions), len(ordering.rows)
    if calls < 2 or not tuples or cache is None:
        return False
    total = ordering.total_tokens / calls
    computed = (ordering.total_tokens - ordering.hit_tokens) / calls
    if cache.blocks is not None and cache.blocks * cache.block_tokens < 2 * window * total / tuples:
        return False  # the cache would evict the fields before the next call reads them
    own = sum(share * tokens for share, tokens in zip(reached, instructions, strict=True))
    uneven = (sum(reached) - max(reached)) * cache.block_tokens / 2
    return computed + tuples * (own + uneven) < computed * sum(reached)
