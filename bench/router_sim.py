"""Which routing policy is best, on simulated replicas, and how fast does it decide?

    python -m bench.router_sim [--workload NAME …] [--replicas 2 4 8] [--policy NAME …] [--peers] [--seeds 5]
        [--first-seed 0] [--prompts 1500] [--load 1.0 …] [--engine 7b-a6000] [--steps FILE] [--trace FILE …]
        [--learned] [--ablation] [--quick] [--json]

Replicas use continuous batching and an LRU cache of blocks. The time of a step was measured on a real engine
(`bench/engine_steps.json`, or `--steps` with the output of `bench.engine_steps --json`). The policies are the product's
own. `--prompts` is the number of prompts for each replica; there are at least 1,200 in all. The rate is that of the
workload times `--load`: one for all, or one for each number of replicas. `--trace` takes files of the shape of
Mooncake's traces instead of the workloads. The figures are medians of the seeds:

- seconds from the arrival of a prompt to the end of its answer; the first third of the prompts warms the caches and
  does not count
- the share of prompt tokens that replicas found cached
- the busiest replica's work divided by the mean
- below each table: how many times better `e2` is than `round_robin` on the same seed (median, least and most of the
  seeds)

With `--peers` the rows are also the rules of llm-d, SGLang, Dynamo and Preble (`bench.peers.routing`). A last table
divides the best of their figures by those of `e2_batch`. Its columns "any replica" divide the figures of a bound
instead: each prompt has as many cached tokens as under `e2_batch`, but on every replica. The shortest queue gets it.

With `--ablation` the rows are E2 without each of its parts. `bench.router_speed` times only decisions.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from bench.common import Options, markdown, report
from bench.peers.routing import PEERS
from bench.router_speed import POLICIES
from bench.router_workloads import WORKLOADS, Workload
from bench.setting import announce
from bench.simulation import ENGINES, Arrival, Cluster, Outcome, StepRates, measured, simulate
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import POLICIES as ALL_POLICIES
from flightllm.router.base import Router, create_router
from flightllm.router.e2 import E2, PAPER, E2Options
from flightllm.router.fleet import Fleet

BASE: Final = "round_robin"
OURS: Final = "e2_batch"
BOUND: Final = "any replica"
_FEWEST: Final = 1_200
_WARM: Final = 3
"""The first part of the prompts warms the caches: this is the number of parts."""
PARTS: Final[Mapping[str, E2Options]] = {
    "e2": E2Options(),
    "without exploitation": E2Options(exploit=False),
    "without rebalancing": E2Options(rebalance=0.0),
    "without crowds (paper)": E2Options(crowd=0.0),
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
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.quick:
        given.replicas, given.seeds, given.prompts, given.load = [2], 1, 150, given.load[:1]
        given.workload = given.workload or ["tools", "nothing shared"]
    steps, workloads = _read(parser, given)
    announce("router_sim", arguments)
    options = Options(given.json, given.quick, given.seeds)
    creates: Creates = {name: partial(create_router, name) for name in given.policy}
    if given.ablation:
        creates = {name: partial(E2, options=parts) for name, parts in PARTS.items()}
    elif given.peers:
        creates = {**creates, OURS: partial(create_router, OURS), **PEERS}
    figures: dict[str, Any] = {}
    for name, workload in workloads.items():
        for replicas, load in zip(given.replicas, given.load * (len(given.replicas) // len(given.load)), strict=True):
            title = f"{name}, {replicas} replicas"
            runs = compare(workload, replicas, load, steps, creates, given)
            found = {
                policy: {figure: median(run[figure] for run in of) for figure in of[0]} for policy, of in runs.items()
            }
            figures[title] = found
            print(table(title, found), flush=True)
            if BASE in runs and "e2" in runs:
                figures[f"{title}, e2 and {BASE}"] = beside = ratios(runs["e2"], runs[BASE])
                print(_line(beside), flush=True)
    if given.peers and not given.ablation:
        figures["best peer"] = best = {name: beside_best(found) for name, found in figures.items() if OURS in found}
        print(peer_table(best), flush=True)
    if given.json:
        report("router_sim", options, figures)


def _read(parser: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[StepRates, dict[str, Workload]]:
    """Return the rates of steps and the workloads; end with an error if an argument or a file is wrong."""
    if len(given.load) not in {1, len(given.replicas)}:
        parser.error(f"--load: expected one number, or {len(given.replicas)}, one for each of --replicas")
    try:
        steps = ENGINES[given.engine] if given.steps is None else measured(given.steps)
        traces = {path.stem: Workload.of_trace(path) for path in given.trace}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return steps, traces or {name: WORKLOADS[name] for name in given.workload or _available()}


def _line(beside: Mapping[str, tuple[float, float, float]]) -> str:
    parts = (f"{of} {middle:.3f} ({low:.3f} to {high:.3f})" for of, (low, middle, high) in beside.items())
    return f"{', '.join(parts)}\n"


def compare(
    workload: Workload, replicas: int, load: float, steps: StepRates, creates: Creates, given: argparse.Namespace
) -> dict[str, list[Figures]]:
    """Return the figures of each policy, one for each seed, over the same prompts; with peers, of the bound too."""
    cache = PrefixCache(workload.block_tokens, workload.cache_blocks)
    cluster = Cluster(replicas, cache, steps, learned=given.learned)
    rate = workload.rate * replicas * load * ENGINES["7b-a6000"].computed / steps.computed
    count = max(_FEWEST if not given.quick else 0, given.prompts * replicas)
    found: dict[str, list[Figures]] = {name: [] for name in creates}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        arrivals = list(workload.arrivals(seed, count, rate))
        warm = len(arrivals) // _WARM
        for name, create in creates.items():
            started = time.perf_counter()
            outcome = simulate(arrivals, cluster, create)
            found[name].append({**outcome.figures(warm), "wall_seconds": time.perf_counter() - started})
            if given.peers and name == OURS:
                bound = simulate(on_any(arrivals, outcome), replace(cluster, cache=_UNLIMITED), _SHORTEST)
                found.setdefault(BOUND, []).append({**bound.figures(warm), "hit_ratio": outcome.hit_ratio})
    return found


_UNLIMITED: Final = PrefixCache(16, None)
_SHORTEST: Final = partial(create_router, "least_loaded")


def on_any(arrivals: Sequence[Arrival], outcome: Outcome) -> list[Arrival]:
    """Return prompts that cost any replica what they cost the one that answered them: only their uncached tokens."""
    random = np.random.default_rng(0)
    cached = dict(zip(outcome.keys, outcome.cached, strict=True))
    return [
        replace(one, tokens=random.integers(0, 32_000, len(one.tokens) // 4 - cached[key], np.uint32).tobytes())
        for key, one in enumerate(arrivals)
    ]


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


def beside_best(found: Mapping[str, Figures]) -> dict[str, Any]:
    """Return how many times better the product's policy is than the best peer, by figure, and than the bound."""
    ours, bound = found[OURS], found[BOUND]
    compared: dict[str, Any] = {}
    for figure in ("mean", "p99"):
        peer = min(PEERS, key=lambda name: found[name][figure])
        compared[figure] = found[peer][figure] / ours[figure]
        compared[f"{figure}_peer"] = peer
        compared[f"{figure}_bound"] = bound[figure] / ours[figure]
    return compared | {name: ours[name] for name in ("hit_ratio", "decisions_per_second")}


def peer_table(best: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a Markdown table of what `beside_best` found."""
    heads: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "mean": lambda one: f"{one['mean']:.2f} ({one['mean_peer']})",
        "p99": lambda one: f"{one['p99']:.2f} ({one['p99_peer']})",
        f"{BOUND}: mean": lambda one: f"{one['mean_bound']:.2f}",
        f"{BOUND}: p99": lambda one: f"{one['p99_bound']:.2f}",
        "hits %": lambda one: f"{100 * one['hit_ratio']:.1f}",
        "decisions/s": lambda one: f"{one['decisions_per_second']:,.0f}",
    }
    return markdown(f"best peer ÷ {OURS}", heads, best)


def table(title: str, found: Mapping[str, Figures]) -> str:
    """Return a Markdown table."""
    heads: dict[str, Callable[[Figures], str]] = {
        "hits %": lambda one: f"{100 * one['hit_ratio']:.1f}",
        "mean s": lambda one: f"{one['mean']:.2f}",
        "p50 s": lambda one: f"{one['p50']:.2f}",
        "p99 s": lambda one: f"{one['p99']:.2f}",
        "first token, mean s": lambda one: f"{one['first_mean']:.2f}",
        "first token, p99 s": lambda one: f"{one['first_p99']:.2f}",
        "makespan s": lambda one: f"{one['makespan']:.1f}",
        "imbalance": lambda one: f"{one['imbalance']:.3f}",
        "decisions/s": lambda one: f"{one['decisions_per_second']:,.0f}",
    }
    return markdown(title, heads, found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, help="(default: all whose tables are there)")
    parser.add_argument("--trace", nargs="+", type=Path, default=[], metavar="FILE", help="instead of the workloads")
    parser.add_argument("--replicas", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--policy", nargs="*", choices=ALL_POLICIES, default=list(POLICIES))
    parser.add_argument("--peers", action="store_true", help="also other projects' rules, and the bound")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=1_500, help="for each replica (default 1,500)")
    parser.add_argument(
        "--load", nargs="+", type=float, default=[1.0], help="factor of the workload's rate (default 1)"
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="7b-a6000",
        help="the engine whose step times are simulated (default 7b-a6000)",
    )
    parser.add_argument("--steps", type=Path, metavar="FILE", help="output of bench.engine_steps --json instead")
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
