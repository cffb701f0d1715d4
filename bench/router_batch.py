"""How soon is a SQL query's whole batch of prompts answered by several simulated replicas, under each routing policy?

    python -m bench.router_batch [--topic NAME …] [--query NAME …] [--rows 15000] [--replicas 2 4 8] [--policy NAME …]
        [--cache-blocks 4096] [--engine 7b-a6000] [--quick] [--json]

The prompts are those that the planner sends (`bench.prompt_streams`), all there from the beginning: as many as the
operator hands out at a time are with the router, which gets them in the waves of the engine. Replicas are
those of `bench.simulation`. Makespans are told beside a reference, the larger one of two: the busy time of one replica
with the same cache and the whole batch in the planner's order, divided by the number of replicas; and the work of the
largest group of prompts that begin alike beyond what all begin with, if it is not cut. It is not a bound: one replica
evicts across groups what several, with a cache each, keep, and a group can be cut.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from bench.common import Options, markdown, report
from bench.prompt_streams import HORIZON, TOPICS, Stream, queries, streams
from bench.samples import PAPER_ROWS
from bench.setting import announce
from bench.simulation import ENGINES, Arrival, Cluster, Outcome, work_off
from flightllm.llm.cost import Rates
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import POLICIES, create_router
from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node

BLOCK_TOKENS: Final = 16
_CHANCE_BLOCKS: Final = 2
"""That prompts have in common by the names of fields, or by chance."""
Figures = dict[str, float]


class OneAfterTheOther(OnlineRouter):
    """The first replica for all, which takes prompts in the order in which they come."""

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the first replica."""
        del prompt, leaf, now
        return 0

    def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
        """Assign all with one share, so that the queue does not change their order."""
        for prompt in prompts:
            self.fleet.assign(prompt, self.fleet.insert(prompt), 0, now)
        return [0] * len(prompts)


@dataclass(frozen=True, slots=True)
class Reference:
    """Times in seconds to compare makespans with."""

    alone: Outcome
    longest_group: float

    def seconds(self, replicas: int) -> float:
        """Return the makespan of equal shares, or of the longest group if that takes longer."""
        return max(self.alone.busy[0] / replicas, self.longest_group)


def backlog(stream: Stream) -> list[Arrival]:
    """Return the prompts of a stream, all there from the beginning."""
    return [Arrival(0.0, one.tokens, one.answer_tokens, one.most_tokens) for one in stream.prompts]


def reference(stream: Stream, cluster: Cluster) -> Reference:
    """Return what a batch's makespans on such a cluster are told beside."""
    alone = work_off(backlog(stream), replace(cluster, replicas=1), OneAfterTheOther, HORIZON)
    return Reference(alone, max(groups(stream, cluster.steps.added())))


def groups(stream: Stream, rates: Rates) -> Iterator[float]:
    """Yield the work of each group of prompts that share more than all prompts of their call do, the instruction."""
    calls: defaultdict[str, list[RoutedPrompt]] = defaultdict(list)
    for key, one in enumerate(stream.prompts):
        calls[one.call].append(RoutedPrompt(key, one.tokens, one.answer_tokens))
    for prompts in calls.values():
        fleet = Fleet(BLOCK_TOKENS, rates)
        fleet.add(None)
        batch = PrefixSortedBatch.of(fleet, prompts)
        common = batch.shared_tokens[1:].min() if len(batch) > 1 else 0
        starts = np.flatnonzero(batch.shared_tokens <= common + _CHANCE_BLOCKS * BLOCK_TOKENS)
        yield from np.add.reduceat(batch.seconds(batch.shared_tokens), np.union1d([0], starts)).tolist()


def compare(stream: Stream, cluster: Cluster, policies: Sequence[str], told: Reference) -> dict[str, Figures]:
    """Return the figures of each policy, with its makespan by the reference."""
    found, arrivals = {}, backlog(stream)
    for policy in policies:
        outcome = work_off(arrivals, cluster, partial(create_router, policy), HORIZON)
        figures = outcome.figures()
        found[policy] = {name: figures[name] for name in ("makespan", "hit_ratio", "imbalance", "stolen")} | {
            "by_reference": outcome.last / told.seconds(cluster.replicas),
            "work": sum(outcome.busy) / told.alone.busy[0],
            "decisions_per_second": figures["decisions_per_second"],
        }
    return found


def table(title: str, found: Mapping[str, Figures]) -> str:
    """Return a Markdown table."""
    heads: dict[str, Callable[[Figures], str]] = {
        "makespan s": lambda one: f"{one['makespan']:.2f}",
        "by the reference": lambda one: f"{one['by_reference']:.3f}",
        "hits %": lambda one: f"{100 * one['hit_ratio']:.1f}",
        "work": lambda one: f"{one['work']:.3f}",
        "imbalance": lambda one: f"{one['imbalance']:.3f}",
        "stolen": lambda one: f"{one['stolen']:,.0f}",
        "decisions/s": lambda one: f"{one['decisions_per_second']:,.0f}",
    }
    return markdown(title, heads, found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    given = _parser().parse_args(arguments)
    if given.quick:
        given.topic, given.query, given.rows, given.replicas = given.topic or ["movies"], ["q1"], 300, [2]
    announce("router_batch", arguments)
    figures: dict[str, Any] = {}
    for topic in given.topic or TOPICS:
        names = tuple(name for name in queries(topic) if not given.query or name in given.query)
        for stream in streams(topic, names, given.rows, given.cache_blocks) if names else ():
            figures |= measure(stream, given)
    if given.json:
        report("router_batch", Options(given.json, given.quick, 1), figures)


def measure(stream: Stream, given: argparse.Namespace) -> dict[str, Any]:
    """Compare the policies on one stream; return and print figures by case."""
    steps = ENGINES[given.engine]
    cluster = Cluster(1, PrefixCache(BLOCK_TOKENS, given.cache_blocks), steps, given.at_once, rates=steps.added())
    told = reference(stream, cluster)
    print(
        f"{stream.name}: {len(stream.prompts):,} prompts, {told.alone.prompt_tokens:,} tokens; a single replica "
        f"{told.alone.busy[0]:.2f} s, {100 * told.alone.hit_ratio:.1f} % cached; longest group "
        f"{told.longest_group:.2f} s\n"
    )
    found: dict[str, Any] = {}
    for replicas in given.replicas:
        title = f"{stream.name}, {replicas} replicas"
        here = compare(stream, replace(cluster, replicas=replicas), given.policy, told)
        found[title] = {"reference": told.seconds(replicas), "longest_group": told.longest_group, **here}
        print(table(f"{title}, reference {told.seconds(replicas):.2f} s", here), flush=True)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topic", nargs="+", choices=TOPICS, help="(default: all)")
    parser.add_argument("--query", nargs="+", help="q1 to q5 (default: all of a topic)")
    parser.add_argument("--rows", type=int, default=PAPER_ROWS, help="of a topic's join, at most (default %(default)s)")
    parser.add_argument("--replicas", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--cache-blocks", type=int, default=4_096, help="of 16 tokens, of each (default %(default)s)")
    parser.add_argument("--at-once", type=int, default=64, help="prompts in an engine (default %(default)s)")
    parser.add_argument("--engine", choices=ENGINES, default="7b-a6000", help="whose steps (default 7b-a6000)")
    parser.add_argument("--quick", action="store_true", help="one query over 300 rows, two replicas")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return parser


if __name__ == "__main__":
    main()
