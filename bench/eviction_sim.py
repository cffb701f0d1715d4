"""What is the hit ratio of each eviction policy, and how long does an eviction take?

    python -m bench.eviction_sim [--workload NAME …] [--trace FILE …] [--policy NAME …] [--parts 0.05 …]
                                 [--blocks 256 …] [--rows 2000] [--prompts 1000] [--rate 3] [--again 0.5] [--seed 1]
                                 [--plot] [--json] [--quick]

The workloads are those of `bench.eviction_workloads`, with the tables in `FLIGHTLLM_DATA`:

- traces and generated prompts, with caches of given shares of their distinct blocks: Mooncake's conversations, Azure's
  traces as blocks (`bench.eviction_traces`), and four generators (`bench.eviction_generators`)
- with `--trace`, only the given files: JSON lines or Parquet, with `timestamp` in milliseconds and `hash_ids`
- queries side by side with interactive prompts, with caches of given sizes and shares; queries begin after five minutes
  of interactive prompts, which do not count
- queries without interactive prompts

A block is a hit if it and all blocks before it in its prompt are cached. `belady` knows the future; `ideal` is an
unlimited cache. The last lines of a table say how far our policies are above the best classical policy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.eviction_generators import GENERATORS
from bench.eviction_peers import PEERS
from bench.eviction_replay import CLASSICAL, Outcome, ahead, closed, compare, distinct, eviction_seconds
from bench.eviction_traces import azure_blocks, read_trace
from bench.eviction_workloads import ALONE, MIXES, WARM_SECONDS, Event, Interactive, What, mooncake, query, run
from bench.mooncake_traces import TraceError
from bench.plot import plot_curves
from flightllm.kvcache.eviction import POLICIES

_ALONE_BLOCKS: Final = (64, 128, 256, 512)
_OURS: Final[Sequence[str]] = ("workload_aware", "planned")
_TRACES: Final[Mapping[str, Callable[[int | None], list[Event]]]] = {
    "mooncake": mooncake,
    "azure_conv": lambda most: azure_blocks("azure_trace_conv", most),
    "azure_code": lambda most: azure_blocks("azure_trace_code", most),
}


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of the command line."""

    workload: Sequence[str]
    trace: Sequence[Path]
    prompts: int | None
    policy: Sequence[str]
    parts: Sequence[float]
    blocks: Sequence[int]
    rows: int
    seed: int
    rate: float
    again: float
    plot: bool
    json: bool
    quick: bool


Found = Mapping[int, dict[str, Outcome]]
"""The outcome of each policy, by the size of the cache in blocks."""


def trace(events: Sequence[Event], given: Given) -> Found:
    """Return the outcomes on all prompts of a trace."""
    whole = distinct(events)
    return {
        size: compare(events, size, given.policy)
        for size in sorted({max(1, int(part * whole)) for part in given.parts})
    }


def _traced(read: Callable[[int | None], list[Event]], given: Given) -> Found:
    return trace(read(given.prompts), given)


def _generated(made: Callable[[int], list[Event]], given: Given) -> Found:
    return trace(made(given.seed)[: given.prompts], given)


def mix(names: Sequence[str], given: Given) -> Found:
    """Return the outcomes on queries side by side with interactive prompts."""
    prompts = [query(name, given.rows) for name in names]
    whole = len({key for one in prompts for prompt in one for key in prompt.use.keys})
    found = {}
    for size in sorted({*given.blocks, *(int(part * whole) for part in given.parts)}):
        others = Interactive(rate=given.rate, again=given.again)(given.seed) if given.rate else iter(())
        events = list(run(prompts, others, size))
        warm = sum(event.what is What.BEGINS and event.at < WARM_SECONDS for event in events) if given.rate else 0
        found[size] = compare(events, size, given.policy, warm)
    return found


def alone(name: str, given: Given) -> Found:
    """Return the outcomes on one query without other prompts."""
    prompts = [query(name, given.rows)]
    return {size: compare(list(run(prompts, iter(()), size)), size, given.policy) for size in _ALONE_BLOCKS}


def show(name: str, found: Found) -> None:
    """Print the hit ratio of each policy, and the share of the gap between LRU and the optimum that it closes."""
    policies = list(next(iter(found.values())))
    rows = {policy: {size: one[policy] for size, one in found.items()} for policy in policies}
    heads: dict[str, Callable[[Any], str]] = {
        f"{size:,}": partial(_told, size, lambda outcome: f"{100 * outcome.ratio:.2f}") for size in found
    }
    heads["µs an eviction"] = lambda row: f"{1e6 * row[min(row)].evicting:.1f}"
    print(markdown(f"{name}: hits, %, by blocks cached", heads, rows))
    heads = {f"{size:,}": partial(_told, size, lambda share: f"{100 * share:.0f}") for size in found}
    shares = {policy: {size: closed(one, policy) for size, one in found.items()} for policy in rows}
    shares = {policy: row for policy, row in shares.items() if policy not in ("lru", "belady", "ideal")}
    print(markdown(f"{name}: of the gap between LRU and belady closed, %", heads, shares), flush=True)
    if any(policy in CLASSICAL for policy in policies) and (ours := [one for one in _OURS if one in policies]):
        heads = {f"{size:,}": partial(_told, size, lambda points: f"{points:+.2f}") for size in found}
        above: dict[str, dict[int, float]] = {
            policy: {size: ahead(one, policy) for size, one in found.items()} for policy in ours
        }
        print(markdown(f"{name}: points above the best classical policy", heads, above), flush=True)


def _told(size: int, told: Callable[[Any], str], row: Mapping[int, Any]) -> str:
    return told(row[size])


def curves(found: Found) -> dict[str, list[tuple[float, float]]]:
    """Return the hit ratio of each policy by cache size, in percentage points above LRU."""
    names = [name for name in next(iter(found.values())) if name != "ideal"]
    return {name: [(size, 100 * (one[name].ratio - one["lru"].ratio)) for size, one in found.items()] for name in names}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    given, given_traces = _read(arguments)
    runs: dict[str, Callable[[], Found]] = {name: partial(_traced, read, given) for name, read in _TRACES.items()}
    runs |= {name: partial(_generated, made, given) for name, made in GENERATORS.items()}
    runs |= {name: partial(trace, events, given) for name, events in given_traces.items()}
    runs |= {name: partial(mix, names, given) for name, names in MIXES.items()}
    runs |= {name: partial(alone, name, given) for name in ALONE}
    found: dict[str, Found] = {}
    for name in given_traces or given.workload:
        found[name] = runs[name]()
        show(name, found[name])
    evicting = {name: 1e6 * eviction_seconds(name) for name in given.policy if name in POLICIES}
    print(markdown("50 call sites, 100,000 blocks", {"µs an eviction": lambda one: f"{one:.1f}"}, evicting))
    if given.plot:
        panels = {f"{name}: hits, points above LRU": curves(one) for name, one in found.items() if name not in ALONE}
        plot_curves(panels, Path(__file__).with_suffix(".png"), "blocks cached", logarithmic=True)
    if given.json:
        hits = {
            name: {size: {policy: one.ratio for policy, one in row.items()} for size, row in sizes.items()}
            for name, sizes in found.items()
        }
        told = {"hits": hits, "microseconds": evicting, "parts": list(given.parts)}
        report("eviction_sim", Options(given.json, given.quick, 1), told)


def _read(arguments: Sequence[str] | None) -> tuple[Given, dict[str, list[Event]]]:
    workloads = [*_TRACES, *GENERATORS, *MIXES, *ALONE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", nargs="+", choices=workloads, default=workloads)
    parser.add_argument(
        "--trace", nargs="+", type=Path, default=[], help="files of Mooncake's shape, in place of workloads"
    )
    parser.add_argument("--prompts", type=int, help="the first prompts of a trace or generator")
    policies = [*POLICIES, *PEERS]
    parser.add_argument("--policy", nargs="+", choices=policies, default=policies, help="besides lru")
    parser.add_argument(
        "--parts",
        nargs="*",
        type=float,
        default=[0.05, 0.1, 0.2, 0.4, 0.6],
        help="cache sizes, as shares of the distinct blocks",
    )
    parser.add_argument(
        "--blocks", nargs="*", type=int, default=[256, 512, 1_024], help="further cache sizes for queries, in blocks"
    )
    parser.add_argument("--rows", type=int, default=2_000, help="rows of each query")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generators and of the interactive prompts")
    parser.add_argument("--rate", type=float, default=3.0, help="interactive prompts a second")
    parser.add_argument("--again", type=float, default=0.5, help="how likely a dashboard or a conversation returns")
    parser.add_argument("--plot", action="store_true", help="write bench/eviction_sim.png")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="1,000 prompts of the trace, a mix of 100 rows, one size")
    given = parser.parse_args(arguments)
    if given.quick:
        given.workload, given.parts, given.blocks, given.rows = ["mooncake", "phases", "2 queries"], [0.05], [], 100
        given.prompts = 1_000
    given.policy = list(dict.fromkeys(["lru", *given.policy]))
    try:
        traces = {str(path): read_trace(path, given.prompts) for path in given.trace}
    except TraceError as error:
        parser.error(str(error))
    return Given(**vars(given)), traces


if __name__ == "__main__":
    main()
