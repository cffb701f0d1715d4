"""Which share of prompts' blocks does each eviction policy find in the cache, and what does an eviction take?

    python -m bench.eviction_sim [--parts 0.05 0.1 0.2 0.4] [--policy NAME …] [--plot] [--json] [--quick]

The Mooncake conversation trace (512-token blocks, by `FLIGHTLLM_DATA`), one prompt after the other, on caches of parts
of its distinct blocks. A block is found where it is cached with all before it. What policies learn they learn on the
first half; hits are those of the second. `belady` knows the future; `ideal` is a cache without an end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq

from bench.common import Options, data_table, markdown, report
from bench.plot import plot_curves
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.base import Policy, Use
from flightllm.kvcache.eviction.belady import Belady
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

TRACE: Final = "mooncake_conversation_trace"
_PROMPT_BLOCKS: Final = 20


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt of a trace: when it comes, in seconds, and its blocks."""

    at: float
    keys: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many blocks were found of those counted, and what evictions took, in seconds, at the median."""

    found: int
    asked: int
    evicting: float

    @property
    def ratio(self) -> float:
        """Return the share of blocks that were found."""
        return self.found / self.asked


def mooncake() -> list[Request]:
    """Return the trace's prompts, in order.

    Raises:
        FileNotFoundError: there is no such table; see `bench.common.data_table`.
    """
    rows = pq.read_table(data_table(TRACE), columns=["timestamp", "hash_ids"]).to_pylist()
    return [Request(row["timestamp"] / 1_000, row["hash_ids"]) for row in rows]


def replay(requests: Sequence[Request], blocks: int, policy: Policy[int], counted: int = 0) -> Outcome:
    """Run prompts one after the other through a cache; the first `counted` ones only warm it."""
    cached: set[int] = set()
    found = asked = 0
    evicting: list[float] = []
    for number, request in enumerate(requests):
        if number == counted and isinstance(policy, WorkloadAware) and counted:
            policy.learning = False
        keys = request.keys
        hits = next((place for place, key in enumerate(keys) if key not in cached), len(keys))
        if number >= counted:
            found, asked = found + hits, asked + len(keys)
        policy.use(Use(keys), request.at)
        for key in keys:
            policy.hold(key)
        cached.update(keys)
        for key in reversed(keys):
            policy.free(key, request.at)
        while len(cached) > blocks:
            started = time.perf_counter()
            key = policy.evict(request.at)
            evicting.append(time.perf_counter() - started)
            cached.remove(key)
    return Outcome(found, asked, median(evicting) if evicting else 0.0)


def eviction_seconds(name: str, blocks: int = 100_000, classes: int = 50, evictions: int = 2_000) -> float:
    """Return what an eviction takes, at the median, with so many blocks that may go and classes of prompts."""
    policy: Policy[int] = POLICIES[name](blocks)
    keys = range(_PROMPT_BLOCKS)
    for number, start in enumerate(range(0, blocks, _PROMPT_BLOCKS)):
        policy.use(Use([start + key for key in keys], number % classes), float(number))
        for key in reversed(keys):
            policy.free(start + key, float(number))
    seconds = []
    for _ in range(evictions):
        started = time.perf_counter()
        policy.evict(float(blocks))
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def compare(requests: Sequence[Request], part: float, names: Sequence[str]) -> dict[str, Outcome]:
    """Return what each policy finds with a cache of this part of the distinct blocks."""
    distinct = len({key for request in requests for key in request.keys})
    blocks, half = max(1, int(part * distinct)), len(requests) // 2
    made: Mapping[str, Callable[[], Policy[int]]] = {
        **{name: lambda name=name: POLICIES[name](blocks) for name in names},  # type: ignore[misc]
        "belady": lambda: Belady([request.keys for request in requests]),
    }
    found = {name: replay(requests, blocks, make(), half) for name, make in made.items()}
    return {**found, "ideal": replay(requests, distinct, POLICIES["lru"](distinct), half)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", type=float, default=[0.05, 0.1, 0.2, 0.4])
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--plot", action="store_true", help="write bench/eviction_sim.png")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="the first 1,000 prompts, one size")
    given = parser.parse_args(arguments)
    requests = mooncake()
    if given.quick:
        requests, given.parts = requests[:1_000], given.parts[:1]
    found = {part: compare(requests, part, given.policy) for part in given.parts}
    names = list(next(iter(found.values())))
    rows = {name: {part: one[name] for part, one in found.items()} for name in names}
    heads: dict[str, Callable[[Any], str]] = {
        f"{part:.0%}": lambda row, part=part: f"{100 * row[part].ratio:.2f}"  # type: ignore[misc]
        for part in given.parts
    }
    heads["µs an eviction"] = lambda row: f"{1e6 * row[given.parts[0]].evicting:.1f}"
    print(markdown("hits, %, by part of the distinct blocks cached", heads, rows))
    evicting = {name: 1e6 * eviction_seconds(name) for name in given.policy}
    print(markdown("50 classes, 100,000 blocks", {"µs an eviction": lambda one: f"{one:.1f}"}, evicting))
    if given.plot:
        rows.pop("ideal")
        curves = {name: [(100 * part, 100 * row[part].ratio) for part in given.parts] for name, row in rows.items()}
        plot_curves({"Mooncake, hits %": curves}, Path(__file__).with_name("eviction_sim.png"), "% of the blocks")
    if given.json:
        hits = {name: {str(part): one.ratio for part, one in row.items()} for name, row in rows.items()}
        figures = {"hits": hits, "microseconds": evicting}
        report("eviction_sim", Options(given.json, given.quick, 1), figures)


if __name__ == "__main__":
    main()
