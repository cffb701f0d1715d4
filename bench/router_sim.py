"""Which routing policy is best, on simulated replicas, and how fast does it decide?

    python -m bench.router_sim [--workload NAME …] [--replicas 2 4 8] [--policy NAME …] [--seeds 5]
        [--first-seed 0] [--prompts 1500] [--load 1.0] [--engine 7b-a6000] [--learned] [--ablation]
        [--quick] [--json]

Replicas use continuous batching and an LRU cache of blocks. The time of a step was measured on a real engine
(`bench.simulation`). The policies are the product's own. `--prompts` is the number of prompts for each replica. The
rate is that of the workload times `--load`. The figures are medians of the seeds:

- seconds from the arrival of a prompt to the end of its answer
- the share of prompt tokens that replicas found cached
- the busiest replica's work divided by the mean
- below each table: how many times better `e2` is than `round_robin` on the same seed (median, least and most of the
  seeds)

With `--ablation` the rows are E2 without each of its parts. `bench.router_speed` times only decisions.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.router_speed import POLICIES
from bench.router_workloads import WORKLOADS, Workload
from bench.simulation import ENGINES, Cluster, simulate
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import Router, create_router
from flightllm.router.e2 import E2, PAPER, E2Options
from flightllm.router.fleet import Fleet

BASE: Final = "round_robin"
PARTS: Final[Mapping[str, E2Options]] = {
    "e2": E2Options(),
    "without exploitation": E2Options(exploit=False),
    "without rebalancing": E2Options(rebalance=0.0),
    "without autoscaling": E2Options(autoscale=False),
    "without either": E2Options(rebalance=0.0, autoscale=False),
    "without decode balance": E2Options(decode_balance=False),
    "without eviction costs": E2Options(eviction="none"),
    "evictions by requests (paper)": E2Options(eviction="requests"),
    "no guard (paper)": E2Options(guard=0.0),
    "autoscaling what is not hot (paper)": E2Options(hot=0.0),
    "load of the window (paper)": E2Options(load="window"),
    "all as in the paper": PAPER,
}

Creates = Mapping[str, Callable[[Fleet], Router]]
Figures = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    given = _parser().parse_args(arguments)
    if given.quick:
        given.replicas, given.seeds, given.prompts = [2], 1, 150
        given.workload = given.workload or ["tools", "nothing shared"]
    options = Options(given.json, given.quick, given.seeds)
    creates: Creates = {name: partial(create_router, name) for name in given.policy}
    if given.ablation:
        creates = {name: partial(E2, options=parts) for name, parts in PARTS.items()}
    figures: dict[str, Any] = {}
    for name in given.workload or _available():
        for replicas in given.replicas:
            title = f"{name}, {replicas} replicas"
            runs = compare(WORKLOADS[name], replicas, creates, given)
            found = {
                policy: {figure: median(run[figure] for run in of) for figure in of[0]} for policy, of in runs.items()
            }
            figures[title] = found
            print(table(title, found), flush=True)
            if BASE in runs and "e2" in runs:
                figures[f"{title}, e2 and {BASE}"] = beside = ratios(runs["e2"], runs[BASE])
                print(
                    ", ".join(
                        f"{of} {middle:.3f} ({low:.3f} to {high:.3f})" for of, (low, middle, high) in beside.items()
                    )
                )
                print(flush=True)
    if given.json:
        report("router_sim", options, figures)


def compare(workload: Workload, replicas: int, creates: Creates, given: argparse.Namespace) -> dict[str, list[Figures]]:
    """Return the figures of each policy, one for each seed, over the same prompts."""
    cluster = Cluster(
        replicas,
        PrefixCache(workload.block_tokens, workload.cache_blocks),
        ENGINES[given.engine],
        learned=given.learned,
    )
    rate = workload.rate * replicas * given.load * ENGINES["7b-a6000"].computed / ENGINES[given.engine].computed
    found: dict[str, list[Figures]] = {}
    for name, create in creates.items():
        found[name] = runs = []
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            started = time.perf_counter()
            arrivals = workload.arrivals(seed, given.prompts * replicas, rate)
            figures = simulate(arrivals, cluster, create).figures()
            runs.append({**figures, "wall_seconds": time.perf_counter() - started})
    return found


def ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> dict[str, tuple[float, float, float]]:
    """Return how many times better one policy is than another: the least, median and most of the seeds."""
    found = {}
    for figure in ("mean", "p99", "makespan", "hit_ratio"):
        pairs = [(one[figure], other[figure]) for one, other in zip(ours, theirs, strict=True)]
        better = [
            (one / other if figure == "hit_ratio" else other / one) if one and other else 1.0 for one, other in pairs
        ]
        found[figure] = min(better), median(better), max(better)
    return found


def table(title: str, found: Mapping[str, Figures]) -> str:
    """Return a Markdown table."""
    heads: dict[str, Callable[[Figures], str]] = {
        "hits %": lambda one: f"{100 * one['hit_ratio']:.1f}",
        "mean s": lambda one: f"{one['mean']:.2f}",
        "p50 s": lambda one: f"{one['p50']:.2f}",
        "p99 s": lambda one: f"{one['p99']:.2f}",
        "makespan s": lambda one: f"{one['makespan']:.1f}",
        "imbalance": lambda one: f"{one['imbalance']:.3f}",
        "decisions/s": lambda one: f"{one['decisions_per_second']:,.0f}",
    }
    return markdown(title, heads, found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, help="(default: all whose tables are there)")
    parser.add_argument("--replicas", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=1_500, help="for each replica (default 1,500)")
    parser.add_argument("--load", type=float, default=1.0, help="factor of the workload's rate (default 1)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="7b-a6000",
        help="the engine whose step times are simulated (default 7b-a6000)",
    )
    parser.add_argument("--learned", action="store_true", help="predict times from the times of answers")
    parser.add_argument("--ablation", action="store_true", help="E2 without each of its parts")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="few prompts, two replicas, one seed")
    return parser


def _available() -> list[str]:
    """Return the workloads whose tables are available."""
    folder = Path(os.environ.get("FLIGHTLLM_DATA", ""))
    return [name for name, one in WORKLOADS.items() if one.table is None or (folder / f"{one.table}.parquet").is_file()]


if __name__ == "__main__":
    main()
