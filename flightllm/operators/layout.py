"""Whether prompts begin with the instruction or with the fields, by the tokens that each way has to compute."""

from collections.abc import Sequence

from flightllm.model.engine import PrefixCache
from flightllm.prompt_order.base import Ordering

_KEPT = 0.5
"""Share of rows that a filter is taken to keep."""


def reach(filters_before: Sequence[int]) -> list[float]:
    """Return the share of rows that each call is taken to see, for the number of filters that come before it."""
    return [_KEPT**filters for filters in filters_before]


def fields_first(
    ordering: Ordering,
    instructions: Sequence[float],
    reached: Sequence[float],
    cache: PrefixCache | None,
    window: int,
) -> bool:
    """Tell whether calls of the same fields compute less with the fields first.

    With the instruction first each call computes what the cache does not have of the fields. With the fields first only
    the first call does, but each computes its instruction, and on average half a block that it does not share.
    `instructions` and `reached` are, per call, the tokens of its instruction and the share of rows it sees.
    """
    calls, tuples = len(instructions), len(ordering.rows)
    if calls < 2 or not tuples or cache is None:
        return False
    total = ordering.total_tokens / calls
    computed = (ordering.total_tokens - ordering.hit_tokens) / calls
    if cache.blocks is not None and cache.blocks * cache.block_tokens < 2 * window * total / tuples:
        return False  # the fields would be forgotten before the next call reads them
    own = sum(share * tokens for share, tokens in zip(reached, instructions, strict=True))
    uneven = (sum(reached) - max(reached)) * cache.block_tokens / 2
    return computed + tuples * (own + uneven) < computed * sum(reached)
