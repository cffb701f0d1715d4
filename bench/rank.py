"""How many of the true first ten rows does each method of ai_rank find, and by how many calls?

    python -m bench.rank [--seeds 100] [--quick] [--json]

The model is simulated, and makes errors of one of two kinds. Each kind has its own table, and rows of different tables
must not be compared:

- `constant`: a comparison of two rows is wrong with a probability of 10 %, however far apart the rows are. A number
  about one row has no such error, so the table has no row for it.
- `distance`: a number about one row has a normal error, by which 10 % of all pairs come in the wrong order. A
  comparison of two rows is wrong as often as that of two such numbers: nearly half of the time for neighbours.

Windows are sorted by such comparisons. The heap is the usual one for the first k rows: build it from pairs, and take
the first row k times. NDCG counts a row that truly has place p as k - p. A seed has its own order and errors.
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench.common import Options, at_least_one, report
from bench.setting import announce
from flightllm.operators.sets.rank_forecast import SimulatedModel
from flightllm.operators.sets.rank_select import Window, rank

ITEMS, WANTED, NOISE = 1_000, 10, 0.1
_ERROR: Final = 0.0975
"""The standard deviation of a number's error, as a share of the scale: 10 % of all pairs are in the wrong order."""
ERRORS: Final = ("constant", "distance")
Found = tuple[Sequence[int], int]
"""The true places of the first rows that a method finds, and its calls."""


class _ByDistance(SimulatedModel):
    """Makes the errors of two numbers that are compared, new ones for each comparison."""

    def _compared(self, one: int, other: int) -> int:
        wrong = 0.5 * math.erfc(abs(one - other) / (2 * _ERROR * ITEMS))
        sign = -1 if one < other else 1
        return -sign if self._rng.random() < wrong else sign


def _model(errors: str, seed: int) -> SimulatedModel:
    return SimulatedModel(NOISE, seed) if errors == "constant" else _ByDistance(seed=seed)


def by_windows(window: int) -> Callable[[int, str], Found]:
    """Return the method that compares at most `window` rows in a prompt."""

    def found(seed: int, errors: str) -> Found:
        places = _places(seed)
        item_at = {place: item for item, place in enumerate(places)}
        model = _model(errors, seed)

        def compare(windows: Sequence[Window]) -> list[Sequence[int] | None]:
            orders = model([tuple(places[item] for item in one) for one in windows])
            return [None if order is None else [item_at[place] for place in order] for order in orders]

        ranked = rank(ITEMS, WANTED, window, compare)
        return [places[item] for item in ranked.first[:WANTED]], model.calls

    return found


def by_numbers(seed: int, _: str) -> Found:
    """Rank by a number about each row."""
    rng = random.Random(seed)  # noqa: S311
    numbers = {place: place / ITEMS + rng.gauss(0, _ERROR) for place in _places(seed)}
    return sorted(numbers, key=numbers.__getitem__)[:WANTED], ITEMS


def by_heap(seed: int, errors: str) -> Found:
    """Rank by a heap of all rows that compares pairs, one prompt for each."""
    heap, model, calls = _places(seed), _model(errors, seed), 0

    def before(one: int, other: int) -> bool:
        nonlocal calls
        calls += 1
        (order,) = model([(one, other)])
        return order is not None and order[0] == one

    def sift(place: int, size: int) -> None:
        while (child := 2 * place + 1) < size:
            if child + 1 < size and before(heap[child + 1], heap[child]):
                child += 1
            if not before(heap[child], heap[place]):
                return
            heap[place], heap[child] = heap[child], heap[place]
            place = child

    for place in reversed(range(ITEMS // 2)):
        sift(place, ITEMS)
    first: list[int] = []
    for size in range(ITEMS - 1, ITEMS - 1 - WANTED, -1):
        first.append(heap[0])
        heap[0] = heap[size]
        sift(0, size)
    return first, calls


POINTWISE: Final = "pointwise"
METHODS: Final[Mapping[str, Callable[[int, str], Found]]] = {
    POINTWISE: by_numbers,
    "listwise": by_windows(10),
    "listwise, window 20": by_windows(20),
    "pairwise": by_windows(2),
    "heap of pairs": by_heap,
}


def methods_for(errors: str) -> list[str]:
    """Return the methods that errors of a kind can befall."""
    return [name for name in METHODS if errors == "distance" or name != POINTWISE]


def measured(method: Callable[[int, str], Found], seeds: int, errors: str) -> dict[str, float]:
    """Return the mean recall, NDCG and calls of a method over some seeds."""
    runs = [method(seed, errors) for seed in range(seeds)]
    recalls = [len(set(first) & set(range(WANTED))) / WANTED for first, _ in runs]
    return {
        "recall": statistics.fmean(recalls),
        "seeds_below_0.9": sum(one < 0.9 for one in recalls) / seeds,
        "ndcg": statistics.fmean(_ndcg(first) for first, _ in runs),
        "calls": statistics.fmean(calls for _, calls in runs),
        "most_calls": float(max(calls for _, calls in runs)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Recall and calls of the methods of ai_rank.")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="ten seeds")
    parser.add_argument("--seeds", type=at_least_one, default=100, help="orders of the rows (default 100)")
    given = parser.parse_args(arguments)
    announce("rank", arguments)
    seeds = 10 if given.quick else given.seeds
    tables: dict[str, dict[str, dict[str, float]]] = {errors: {} for errors in ERRORS}
    for errors, table in tables.items():
        print(f"errors: {errors}")
        for name in methods_for(errors):
            table[name] = measured(METHODS[name], seeds, errors)
            print(f"  {name:20}", ", ".join(f"{key} {value:,.4g}" for key, value in table[name].items()), flush=True)
    figures: dict[str, Any] = {"items": ITEMS, "wanted": WANTED, "noise": NOISE, "seeds": seeds, "errors": tables}
    report("rank", Options(given.json, given.quick, 1), figures)


def _places(seed: int) -> list[int]:
    """Return the true place of each row."""
    return random.Random(seed + 1_000).sample(range(ITEMS), ITEMS)  # noqa: S311


def _ndcg(first: Sequence[int]) -> float:
    gains = [max(0, WANTED - place) / math.log2(2 + position) for position, place in enumerate(first)]
    return sum(gains) / sum((WANTED - place) / math.log2(2 + place) for place in range(WANTED))


if __name__ == "__main__":
    main()
