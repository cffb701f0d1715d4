"""Sentences about the steps of the paper's queries, which follow from a record of `bench.llm_queries`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

_LITTLE: Final = 0.03
"""A smaller change of the seconds counts as none."""
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
FIXED: Final = "and fixed order"
GREEDY: Final = "and greedy order"
Figures = Mapping[str, Any]


def kinds(figures: Figures) -> str:
    """Return how many kinds of queries the record has, in words."""
    names = {name for steps in figures["queries"].values() for queries in steps.values() for name in queries}
    number = _NUMBERS[len(names)] if len(names) < len(_NUMBERS) else f"{len(names)}"
    return f"{number} {'kind' if len(names) == 1 else 'kinds'} of queries"


def gains(whole: Figures) -> str:
    """Return which step saves the most, which ones save nearly nothing, and which ones take longer."""
    pairs = {name: (before["seconds"], after["seconds"]) for (_, before), (name, after) in pairwise(whole.items())}
    saved = {name: before - after for name, (before, after) in pairs.items()}
    shares = {name: saved[name] / max(before, 0.01) for name, (before, _) in pairs.items()}
    most = max(saved, key=lambda name: saved[name])
    found = ["No step saves time."]
    if shares[most] >= _LITTLE:
        found = [f"The step *{most}* saves the most: {saved[most]:,.0f} s of {pairs[most][0]:,.0f} s."]
    if rest := {name: share for name, share in shares.items() if name != most and share >= _LITTLE}:
        found.append(f"The seconds also fall with {_listed(rest)}.")
    if little := [name for name, share in shares.items() if abs(share) < _LITTLE]:
        changed = ", ".join(f"*{name}*" for name in little)
        found.append(f"The seconds change by less than {100 * _LITTLE:.0f} % with {changed}.")
    if longer := {name: -share for name, share in shares.items() if share <= -_LITTLE}:
        found.append(f"The seconds grow with {_listed(longer)}.")
    return " ".join(found)


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"*{name}* ({100 * share:.0f} %)" for name, share in shares.items())


def spread(figures: Figures) -> str:
    """Return how much the rounds of one step differ."""
    rounds = figures["rounds"]
    if rounds == 1:
        return "There was one round, so a small difference between two steps can be chance."
    shares = [(one["most_seconds"] - one["least_seconds"]) / one["seconds"] for one in figures["whole"].values()]
    return (
        f"Seconds are medians of {rounds} rounds. The rounds of one step differ by {100 * max(shares):.0f} % at most."
    )


def lost(figures: Figures) -> str:
    """Return how large the caches were, and what the original order computed because of them."""
    _, original, *_ = figures["whole"].values()
    sizes = [one["cache_tokens"] for one in figures["caches"].values()]
    computed, least = original["computed_tokens"], original["least_block_tokens"]
    held = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    share = 100 * (computed - least) / computed
    again = f"{share:.0f} % of these were computed again" if computed > least else "nothing was computed again"
    return (
        f"The caches held {held} tokens. In the original order the engine computed {computed:,} tokens. "
        f"With a cache for all prompts, {least:,} would do, so {again}."
    )


def orders(figures: Figures) -> str:
    """Return what the orders of prompts took in the benchmark, for the page that explains the settings."""
    _, original, *_ = figures["whole"].values()
    fixed, greedy = figures["whole"][FIXED], figures["whole"][GREEDY]
    return (
        f"In the [benchmark](../benchmarks/prompt-order.md), `{figures['model']}` took "
        f"{original['seconds']:,.0f} s for prompts in their original order. "
        f"It took {fixed['seconds']:,.0f} s with `fixed`, and {greedy['seconds']:,.0f} s with `greedy`."
    )
