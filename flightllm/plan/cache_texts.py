"""Describe the rules of a provider's prefix cache, for EXPLAIN."""

from __future__ import annotations

from typing import Final

from flightllm.llm.cost import ModelCosts, Prices, Work, Works
from flightllm.llm.engine import PrefixCache

_NO_FLOOR: Final = 1 << 30
"""An endpoint with a higher floor has no cache."""


def cache_rules_text(cache: PrefixCache | None, prices: Prices | None) -> str:
    """Return the rules by which a provider charges for its cache; an empty text for an engine without such rules.

    The prices count where they are known, and otherwise the usual factors on the price of input.
    """
    if cache is None or not cache.hosted:
        return ""
    if cache.floor_tokens > _NO_FLOOR:
        return "no prompt is cached"
    read, write = cache.read, cache.write
    if prices is not None and prices.input:
        read = prices.cached / prices.input
        write = 1.0 if prices.written is None else prices.written / prices.input
    step = f" in steps of {cache.block_tokens:,}" if cache.block_tokens > 1 else ""
    kept = f", kept {_time(cache.seconds)}" if cache.seconds else ""
    stored = ""
    if cache.whole:
        stored = ", only whole prompts are found again"
    elif cache.breakpoints:
        stored = f", up to {cache.most_marks} marked starts of a prompt are stored"
    elif cache.units:
        stored = ", a start is found from the third prompt with it on"
    told = f"prompts from {cache.floor_tokens:,} tokens{step}, read {read:.2g} x, write {write:.3g} x{kept}{stored}"
    return (
        told if cache.share == 1.0 else f"{told}; the endpoint reports {100 * cache.share:.0f} % of the possible hits"
    )


def uncached(works: Works) -> Works:
    """Return work as it would be if no prompt were found or stored."""
    return {model: Work(work.calls, work.prompt_tokens, 0, work.completion_tokens, 0) for model, work in works.items()}


def bills(works: Works, costs: ModelCosts) -> str:
    """Return the predicted bill, and that without a cache; an empty text where a price is unknown."""
    bill, none = costs.price(works), costs.price(uncached(works))
    return "" if bill is None or none is None else f"the bill is {bill:,.4g}; without a cache it is {none:,.4g}"


def _time(seconds: float) -> str:
    for unit, size in (("h", 3_600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
