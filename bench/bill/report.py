"""The goals of the bill, and the tables that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bench.common import markdown

CHEAPER: Final = 0.3
"""Where a shared start can save so much of the bill without a cache, the layout must save it."""
NEAR_BEST: Final = 0.05
OFF_WARM: Final = 0.02
OFF_COLD: Final = 0.1
_ROUNDING: Final = 1e-9
Cell = Mapping[str, Any]


def cells(figures: Mapping[str, Mapping[str, Cell]]) -> Iterator[tuple[str, str, Cell]]:
    """Yield the provider, the query and the figures of each pair."""
    for provider, found in figures.items():
        for query, cell in found.items():
            yield provider, query, cell


def goals(
    figures: Mapping[str, Mapping[str, Cell]], small: Mapping[str, Mapping[str, Cell]]
) -> Mapping[str, Mapping[str, Any]]:
    """Return for each goal how many cases count, how many reach it, and which do not."""
    every = [(f"{provider}: {query}", cell) for provider, query, cell in cells(figures)]
    tiny = [(f"{provider}: {query}", cell) for provider, query, cell in cells(small)]
    return {
        "never dearer than no cache": _goal(
            [(name, cell["bill"] <= cell["none"] * (1 + _ROUNDING)) for name, cell in every]
        ),
        "never dearer than before": _goal(
            [(name, cell["bill"] <= cell["before"] * (1 + _ROUNDING)) for name, cell in every]
        ),
        f"{CHEAPER:.0%} cheaper than no cache where it can be": _goal(
            [
                (name, cell["bill"] <= cell["none"] * (1 - CHEAPER))
                for name, cell in every
                if cell["possible"] <= cell["none"] * (1 - CHEAPER)
            ]
        ),
        f"within {NEAR_BEST:.0%} of the best on small tables": _goal(
            [(name, cell["bill"] <= cell["best"] * (1 + NEAR_BEST)) for name, cell in tiny]
        ),
        f"EXPLAIN within {OFF_COLD:.0%} cold": _goal(
            [(name, _within(cell["cold_error"], OFF_COLD)) for name, cell in every]
        ),
        f"EXPLAIN within {OFF_COLD:.0%} cold, where answers decide no calls": _goal(
            [(name, _within(cell["cold_error"], OFF_COLD)) for name, cell in every if _foreseen(cell["cold"])]
        ),
        f"EXPLAIN within {OFF_WARM:.0%} warm": _goal(
            [(name, _within(cell["warm_error"], OFF_WARM)) for name, cell in every]
        ),
        f"EXPLAIN within {OFF_WARM:.0%} warm, where answers decide no calls": _goal(
            [(name, _within(cell["warm_error"], OFF_WARM)) for name, cell in every if _foreseen(cell["warm"])]
        ),
    }


def _goal(reached: Sequence[tuple[str, bool]]) -> Mapping[str, Any]:
    return {
        "cases": len(reached),
        "reached": sum(is_reached for _, is_reached in reached),
        "missed": [name for name, is_reached in reached if not is_reached],
    }


def _foreseen(run: Cell) -> bool:
    """Return whether EXPLAIN knew how many requests a run makes; no forecast knows the answers of a new filter."""
    return bool(run["predicted_calls"] == run["requests"])


def _within(error: float | None, most: float) -> bool:
    return error is not None and abs(error) <= most


def shown(provider: str, found: Mapping[str, Cell], small: Mapping[str, Cell]) -> str:
    """Return one provider's figures as a Markdown table."""
    heads: dict[str, Callable[[Any], str]] = {
        "bill, $ for 1,000 runs": lambda query: f"{1_000 * found[query]['bill']:.3f}",
        "÷ no cache": partial(_ratio, found, "none"),
        "÷ before": partial(_ratio, found, "before"),
        "÷ good layout": partial(_ratio, found, "possible"),
        "small: ÷ best": partial(_ratio, small, "best"),
        "EXPLAIN cold": partial(_percent, found, "cold_error"),
        "EXPLAIN warm": partial(_percent, found, "warm_error"),
    }
    return markdown(provider, heads, {query: query for query in found})


def _ratio(found: Mapping[str, Cell], name: str, query: str) -> str:
    cell = found.get(query, {})
    return f"{cell['bill'] / cell[name]:.3f}" if cell.get(name) else ""


def _percent(found: Mapping[str, Cell], name: str, query: str) -> str:
    error = found[query][name]
    return "none" if error is None else f"{error:+.1%}"
