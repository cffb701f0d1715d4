"""Foresee the calls that each method of ranking takes, with a simulated model that is sometimes wrong."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key, lru_cache
from typing import Final

from flightllm.functions.ranking import PAIR_WINDOW
from flightllm.operators.sets.rank_select import Window, rank

NOISE: Final = 0.1
"""The share of comparisons that are foreseen to be wrong."""
_MOST: Final = 5_000
"""The most items of a simulation; the calls for more items grow with their number."""
_USUAL_WINDOW: Final = 10


@dataclass(slots=True)
class SimulatedModel:
    """Orders items by their numbers, with errors; it counts its prompts."""

    noise: float = NOISE
    seed: int = 0
    calls: int = 0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Seed the errors."""
        self._rng = random.Random(self.seed)  # noqa: S311

    def __call__(self, windows: Sequence[Window]) -> list[Sequence[int] | None]:
        """Order each window. Each comparison of a sort of the window is wrong with the probability `noise`."""
        self.calls += len(windows)
        return [sorted(window, key=cmp_to_key(self._compared)) for window in windows]

    def _compared(self, one: int, other: int) -> int:
        sign = -1 if one < other else 1
        return -sign if self._rng.random() < self.noise else sign


@lru_cache(maxsize=1_024)
def calls_of(items: int, wanted: int, window: int) -> int:
    """Return the number of prompts that find the first `wanted` of `items` by windows of at most `window` items."""
    simulated = min(items, _MOST)
    share = simulated if wanted >= items else min(wanted, simulated)
    order = random.Random(0).sample(range(simulated), simulated)  # noqa: S311
    model = SimulatedModel()

    def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        found = model([tuple(order[item] for item in one) for one in windows])
        numbers = [dict(zip((order[item] for item in one), one, strict=True)) for one in windows]
        return [None if f is None else [n[item] for item in f] for f, n in zip(found, numbers, strict=True)]

    rank(simulated, share, window, compare)
    return round(model.calls * items / max(1, simulated))


def methods_text(items: int, wanted: int | None, window: int | None) -> str:
    """Say how many calls each method takes for the first `wanted` of some items; None: all items.

    `window` is the window of the call's own method; without it, or with that of pairs, lists have the usual window.
    """
    most = items if wanted is None else min(abs(wanted), items)
    what = "all" if most == items else f"the first {most:,}"
    several = _USUAL_WINDOW if window is None or window == PAIR_WINDOW else window
    listed, pairs = calls_of(items, most, several), calls_of(items, most, PAIR_WINDOW)
    return (
        f"to rank {what} of {items:,} distinct values, pointwise takes {items:,} calls, listwise about {listed:,},"
        f" pairwise about {pairs:,}"
    )
