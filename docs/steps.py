"""Sentences about the steps of the paper's queries, which follow from a record of `bench.llm_queries`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

_LITTLE: Final = 0.03
"""A smaller change of the seconds counts as none, also if the rounds of a step differ by less."""
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DEDUPLICATED: Final = "and deduplication"
SORTED: Final = "and sorted rows"
DEFAULTS: Final = "and SQL rules"
"""The step with the default settings. Later steps have settings that change prompts, and so can change answers."""
FIXED: Final = "and fixed order"
GREEDY: Final = "and greedy order"
Figures = Mapping[str, Any]


def kinds(figures: Figures) -> str:
    """Return how many kinds of queries the record has, in words."""
    names = {name for steps in figures["queries"].values() for queries in steps.values() for name in queries}
    number = _NUMBERS[len(names)] if len(names) < len(_NUMBERS) else f"{len(names)}"
    return f"{number} {'kind' if len(names) == 1 else 'kinds'} of queries"


def gains(whole: Figures) -> str:
    """Return which step saves the most, which ones save nearly nothing, and which ones take longer.

    A change below 3 %, or below the largest spread of a step's rounds, counts as none.
    """
    limit = max(_LITTLE, _most_spread(whole))
    pairs = {name: (before["seconds"], after["seconds"]) for (_, before), (name, after) in pairwise(whole.items())}
    saved = {name: before - after for name, (before, after) in pairs.items()}
    shares = {name: saved[name] / max(before, 0.01) for name, (before, _) in pairs.items()}
    clear = {name: share for name, share in shares.items() if share >= limit}
    most = max(clear, key=lambda name: saved[name], default="")
    found = [f"No step saves {100 * limit:.0f} % of the seconds or more."]
    if most:
        found = [f"The step *{most}* saves the most: {saved[most]:,.0f} s of {pairs[most][0]:,.0f} s."]
    if rest := {name: share for name, share in clear.items() if name != most}:
        found.append(f"The seconds also fall with {_listed(rest)}.")
    if little := [name for name, share in shares.items() if abs(share) < limit]:
        changed = ", ".join(f"*{name}*" for name in little)
        found.append(f"The seconds change by less than {100 * limit:.0f} % with {changed}.")
    if longer := {name: -share for name, share in shares.items() if share <= -limit}:
        found.append(f"The seconds grow with {_listed(longer)}.")
    return " ".join(found)


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"*{name}* ({100 * share:.0f} %)" for name, share in shares.items())


def spread(figures: Figures) -> str:
    """Return how much the rounds of one step differ."""
    rounds = figures["rounds"]
    if rounds == 1:
        return "There was one round, so a small difference between two steps can be chance."
    most = 100 * _most_spread(figures["whole"])
    return f"Seconds are medians of {rounds} rounds. The rounds of one step differ by {most:.0f} % at most."


def _most_spread(whole: Figures) -> float:
    """Return the largest share of a step's seconds by which the rounds of the step differ."""
    shares = [(one["most_seconds"] - one["least_seconds"]) / max(one["seconds"], 0.01) for one in whole.values()]
    return float(max(shares))


def held(figures: Figures) -> str:
    """Return how many prompts ran at once, and how many tokens the caches held."""
    sizes = [one["cache_tokens"] for one in figures["caches"].values()]
    tokens = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    return f"{figures['in_flight']} prompts at once and a cache of {tokens} tokens"


def left_out(figures: Figures) -> str:
    """Return how many prompts the bound over any order of fields leaves out, or nothing if it has all of them."""
    count = figures.get("undivided_prompts") or 0
    if not count:
        return ""
    kinds_of = "prompt, whose fields" if count == 1 else "prompts, whose fields"
    return f"\n*Any field order* leaves out {count:,} {kinds_of} could not be told apart.\n"


def lost(figures: Figures) -> str:
    """Return what the original order computed because of the caches' size."""
    _, original, *_ = figures["whole"].values()
    computed, least = original["computed_tokens"], original["least_block_tokens"]
    share = 100 * (computed - least) / computed
    again = f"at most {share:.0f} % of these were computed again" if computed > least else "nothing was computed again"
    return (
        f"The engine ran with {held(figures)}. In the original order it computed {computed:,} tokens. "
        f"With a cache for all prompts, at least {least:,} must be computed, so {again}."
    )


def orders(figures: Figures) -> str:
    """Return what the orders of prompts took in the benchmark, for the page that explains the settings."""
    original, chosen, fixed, greedy = (figures["whole"][step] for step in (DEDUPLICATED, DEFAULTS, FIXED, GREEDY))
    return (
        f"In the [benchmark](../benchmarks/prompt-order.md), `{figures['model']}` took "
        f"{original['seconds']:,.0f} s for distinct prompts in their original order, "
        f"and {chosen['seconds']:,.0f} s with the defaults. "
        f"It took {fixed['seconds']:,.0f} s with `fixed`, and {greedy['seconds']:,.0f} s with `greedy`."
    )
