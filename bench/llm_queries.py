"""Run the paper's queries step by step: a prefix cache, deduplication, sorted rows, SQL rules, ordered fields.

    python -m bench.llm_queries [--suite paper] [--model bench|FOLDER] [--rows N] [--topic movies] [--queries q1,q2]
        [--rounds 3] [--cache-blocks N] [--json] [--plot FILE]

Each step adds one optimisation to the step before. Every query of every step runs in a new database and begins with an
empty prefix cache. Grammars are compiled and the code is loaded before, see `bench.cold`. With `--rounds 2` or more,
the steps of a query follow each other, in every second round in the opposite order. One round, the default, first
measures all queries without a prefix cache. Seconds are medians of the rounds; the JSON also has `least_seconds` and
`most_seconds`. CPU seconds hardly depend on other work on the machine. Speed-ups compare with the step that has only
the prefix cache, over all queries of a topic. Rows are in random order. With `--stored`, reviews of `joins` stay in the
order of their file, and the rows of `paper` are sorted by their subject.

`--suite joins` joins reviews with their subjects, and asks short questions. At the default of rows, the texts that
prompts share are larger than the cache. `--suite paper` has instructions of the paper's length, the paper's five
queries, and all columns as fields, see `bench.paper`.

The paper's tables are many times larger than the cache of a GPU. Here a topic has few rows, so `--suite paper` makes
the cache small too. At few rows it has room for the prompts in flight, each of mean length, and for not much more. At
many rows it holds a sixteenth of the least tokens that the topic's largest query must compute. See
`bench.engines.small_cache`. vLLM drops the block whose last use is the oldest.

Beside the computed tokens of each query stands the least number of tokens that any order must compute. `least_tokens`
holds for the prompts of this step in any order, and `least_block_tokens` for a cache of whole blocks.
`any_order_tokens` holds for any order of the fields too; see `bench.trie`.

The first step with failed rows ends the run with exit code 1. The JSON then has the figures before it, without totals,
and the message in `failed`.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from bench.cold import BASE, LEAST, ColdRuns, FailedRowsError, Figures, Step, cold_runs, merged, summed
from bench.common import at_least_one, end_unfinished, machine, missing_table_ends
from bench.engines import BLOCK_TOKENS, CACHE_BLOCKS, IN_FLIGHT, engine_config, prompt_tokens, small_cache
from bench.models import SHAPES, Model, named_model
from bench.paper import topics as paper_topics
from bench.plot import plot_steps
from bench.samples import first_rows, write
from bench.setting import announce
from bench.suite import suites
from flightllm.config import EngineConfig

_EVICTION: Final = "none"
"""Blocks are evicted as in the paper's baselines, without the plan of the query."""
_DEDUPLICATED: Final = BASE | {"dedup": "on"}
_DEFAULTS: Final = {"cache": "off"}
_GREEDY: Final = _DEFAULTS | {"ordering": "greedy"}
GREEDY: Final = Step("and greedy order", prefix_cache=True, settings=_GREEDY)
STEPS: Final = (
    Step("no prefix cache", prefix_cache=False, settings=BASE),
    Step("prefix cache, original order", prefix_cache=True, settings=BASE),
    Step("and deduplication", prefix_cache=True, settings=_DEDUPLICATED),
    Step("and sorted rows", prefix_cache=True, settings=_DEDUPLICATED | {"ordering": "rows"}),
    Step("and SQL rules", prefix_cache=True, settings=_DEFAULTS),
    Step("and fixed order", prefix_cache=True, settings=_DEFAULTS | {"ordering": "fixed"}),
    GREEDY,
    Step("and fields first", prefix_cache=True, settings=_GREEDY | {"layout": "fields"}),
)
"""The step with the SQL rules has the defaults. Later steps change the texts of prompts, and so can change answers."""
BASELINE: Final = STEPS[1].name
Rounds = Sequence[Figures]
"""The figures of one query and step, one for each round."""


class Workload(Protocol):
    """The tables and queries of one topic."""

    @property
    def queries(self) -> Mapping[str, str]:
        """Return the SQL of each query by name."""

    @property
    def paper(self) -> tuple[float, float]:
        """Return the paper's range of speed-ups over a system with only a prefix cache."""

    def tables(self, rows: int, *, stored: bool = False) -> Mapping[str, pa.Table]:
        """Return the tables by name, reduced to about `rows` joined rows."""


_ROWS: Final = {"joins": 2_000, "paper": 20}
"""The rows of each topic; one round of `paper` takes about 18 minutes with 135 million parameters on two CPU cores."""
_QUICK_ROWS: Final = {"joins": 200, "paper": 10}
_IN_FLIGHT: Final = {"joins": IN_FLIGHT, "paper": 2}
"""Prompts at once. The small cache of `paper` must hold so many prompts of mean length, so there are few of them."""
SUITES: Final[Mapping[str, Callable[[], Mapping[str, Workload]]]] = {"joins": suites, "paper": paper_topics}


def measure(
    engine: Callable[..., EngineConfig],
    files: Mapping[str, Path],
    few: Mapping[str, Path],
    queries: Mapping[str, str],
    rounds: int,
) -> Iterator[tuple[str, str, Figures]]:
    """Yield step, query and figures of one topic, round by round.

    With several rounds, two engines are open, one with a prefix cache and one without. So the steps of a query follow
    each other. Every second round has the steps in the opposite order. With one round, the second engine opens
    after the first one ends: a GPU has room for one. `few` has the files with the rows of the warm-up.
    """
    apart = [list(steps) for _, steps in groupby(STEPS, key=lambda step: step.prefix_cache)]
    for steps in apart if rounds == 1 else [STEPS]:
        with ExitStack() as stack:
            runs: dict[bool, ColdRuns] = {}
            for last in {step.prefix_cache: step for step in steps}.values():
                run = stack.enter_context(cold_runs(engine, files, prefix_cache=last.prefix_cache))
                run.warm(queries.values(), few, last)
                runs[last.prefix_cache] = run
            for number in range(rounds):
                for name, sql in queries.items():
                    for step in steps[:: -1 if number % 2 else 1]:
                        yield step.name, name, runs[step.prefix_cache](sql, step)


def across(found: Mapping[str, Mapping[str, Mapping[str, Rounds]]]) -> dict[str, dict[str, Rounds]]:
    """Return the queries of all topics by step; each query's name begins with its topic."""
    together: dict[str, dict[str, Rounds]] = {}
    for topic, steps in found.items():
        for step, queries in steps.items():
            together.setdefault(step, {}).update({f"{topic} {name}": one for name, one in queries.items()})
    return together


def totals(found: Mapping[str, Mapping[str, Rounds]]) -> dict[str, Figures]:
    """Return the sums over the queries of each step, with speed-ups. Seconds are the medians of the rounds' sums.

    The speed-ups are over `BASELINE`, over the step before, and over no prefix cache.
    """
    sums = {
        step: merged([summed(of_round) for of_round in zip(*queries.values(), strict=True)])
        for step, queries in found.items()
    }
    before = None
    for figures in sums.values():
        figures["speed_up"] = round(sums[BASELINE]["seconds"] / max(0.01, figures["seconds"]), 2)
        figures["cpu_speed_up"] = round(sums[BASELINE]["cpu_seconds"] / max(0.01, figures["cpu_seconds"]), 2)
        figures["no_cache_speed_up"] = round(sums[STEPS[0].name]["seconds"] / max(0.01, figures["seconds"]), 2)
        figures["step_speed_up"] = round(before / max(0.01, figures["seconds"]), 2) if before else None
        before = figures["seconds"]
    return sums


def table(found: Mapping[str, Mapping[str, Rounds]]) -> str:
    """Return a topic's figures as a Markdown table: the queries' seconds, then the totals.

    The cell of a bound that a step lacks is empty.
    """
    sums = totals(found)
    queries = list(next(iter(found.values())))
    heads = [*(f"{q} s" for q in queries), "total s", "least", "most", "speed-up", "× step before", "CPU s"]
    counts = ["calls", "prompt tokens", "computed", "least", "in blocks", "any field order"]
    lines = [["step", *heads, "in CPU s", *counts, "hit rate"]]
    for step, figures in sums.items():
        seconds = [f"{merged(found[step][q])['seconds']:.1f}" for q in queries]
        seconds += [f"{figures[name]:.1f}" for name in ("seconds", "least_seconds", "most_seconds")]
        ratios = [f"{figures['speed_up']:.2f}", f"{figures['step_speed_up'] or 1:.2f}"]
        ratios += [f"{figures['cpu_seconds']:.0f}", f"{figures['cpu_speed_up']:.2f}"]
        tokens = [f"{figures[name]:,}" for name in ("calls", "prompt_tokens", "computed_tokens")]
        tokens += ["" if figures[name] is None else f"{figures[name]:,}" for name in LEAST]
        lines.append([step, *seconds, *ratios, *tokens, f"{100 * figures['hit_rate']:.1f} %"])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def predictions(found: Mapping[str, Mapping[str, Rounds]]) -> str:
    """Return a Markdown table of predicted and actual hit rates, for each query and each step with a prefix cache."""
    steps = {step: queries for step, queries in found.items() if step != STEPS[0].name}
    lines = [
        ["hit rate predicted / actual, %", *next(iter(steps.values()))],
        ["---"] * (1 + len(next(iter(steps.values())))),
    ]
    for step, queries in steps.items():
        merged_queries = map(merged, queries.values())
        rates = [f"{100 * f['predicted_hit_rate']:.1f} / {100 * f['hit_rate']:.1f}" for f in merged_queries]
        lines.append([step, *rates])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Found = dict[str, dict[str, dict[str, list[Figures]]]]


def measure_topics(given: argparse.Namespace) -> tuple[Found, dict[str, Figures], dict[str, str]]:
    """Run the queries over samples of the topics' tables; return figures, caches and failures.

    The figures are by topic, step, query and round. The caches are by topic: their blocks, and the tokens in these.
    The first step with failed rows ends the run. Its message is then the only failure, and the figures are those of the
    runs before it.
    """
    topics = {name: topic for name, topic in SUITES[given.suite]().items() if name in (given.topic or [name])}
    wanted = given.queries.split(",")
    found: Found = {}
    caches: dict[str, Figures] = {}
    for topic, suite in topics.items():
        queries = {name: sql for name, sql in suite.queries.items() if name in wanted}
        if not queries:
            continue
        with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
            tables = suite.tables(given.rows, stored=given.stored)
            *_, asked = tables  # queries ask about the rows of the last table
            files, few = write(tables, Path(folder)), write(first_rows(tables, {asked: 2}), Path(folder, "few"))
            blocks = given.cache_blocks or _blocks(given, files, queries)
            caches[topic] = {"cache_blocks": blocks, "cache_tokens": blocks * BLOCK_TOKENS}
            print(f"{topic}: a cache of {blocks:,} blocks, {blocks * BLOCK_TOKENS:,} tokens", flush=True)
            if given.engine == "fake" and given.cache_blocks:  # vLLM itself refuses such a cache
                _warn_of_long_prompts(given, blocks, files, queries)
            engine = partial(engine_config, given.engine, given.model, blocks, given.in_flight, kv_eviction=_EVICTION)
            try:
                for step, query, figures in measure(engine, files, few, queries, given.rounds):
                    print(f"{topic}, {step}, {query}: {json.dumps(figures)}", flush=True)
                    found.setdefault(topic, {}).setdefault(step, {}).setdefault(query, []).append(figures)
            except FailedRowsError as error:
                return found, caches, {f"{topic}, {error.step}": f"{topic}, {error}"}
        low, high = suite.paper
        reported = f"{low}" if low == high else f"{low} to {high}"
        print(f"\n{topic}, {given.rows} rows; the paper's speed-up is {reported}\n\n{table(found[topic])}\n")
        print(f"{predictions(found[topic])}\n", flush=True)
    return found, caches, {}


def _blocks(given: argparse.Namespace, files: Mapping[str, Path], queries: Mapping[str, str]) -> int:
    """Return the blocks of a topic's cache: for `joins` a constant, for `paper` a number that follows from prompts."""
    if given.suite == "joins":
        return CACHE_BLOCKS
    config = engine_config(given.engine, given.model, CACHE_BLOCKS, given.in_flight, prefix_cache=True)
    return small_cache([prompt_tokens(config, files, sql, BASE) for sql in queries.values()], given.in_flight)


def _warn_of_long_prompts(
    given: argparse.Namespace, blocks: int, files: Mapping[str, Path], queries: Mapping[str, str]
) -> None:
    """Print a warning if the cache cannot hold the longest prompt."""
    config = engine_config(given.engine, given.model, blocks, given.in_flight, prefix_cache=True)
    prompts = (prompt for sql in queries.values() for prompt in prompt_tokens(config, files, sql, BASE))
    longest = max(map(len, prompts), default=0)
    if longest > blocks * BLOCK_TOKENS:
        print(f"warning: the cache cannot hold the longest prompt, which has {longest:,} tokens", flush=True)


def add_engine_arguments(
    parser: argparse.ArgumentParser, *, chosen_blocks: str = "", chosen_in_flight: str = ""
) -> None:
    """Add the arguments for the engine, its model and its cache.

    `chosen_blocks` and `chosen_in_flight` describe how the script itself chooses a default. The default is then None.
    """
    parser.add_argument("--engine", default="vllm", choices=("vllm", "local", "fake"))
    parser.add_argument(
        "--model",
        default="bench",
        help=f"vLLM's model: a size of {', '.join(SHAPES)} with random weights (7b needs a GPU), or a model's folder",
    )
    for name, default, chosen, words in (
        ("--cache-blocks", CACHE_BLOCKS, chosen_blocks, f"cache blocks of {BLOCK_TOKENS} tokens"),
        ("--in-flight", IN_FLIGHT, chosen_in_flight, "prompts at once"),
    ):
        told = f"{words} (default: {chosen or default})"
        parser.add_argument(name, type=at_least_one, default=None if chosen else default, help=told)


def read_model(parser: argparse.ArgumentParser, name: str) -> Model:
    """Return the model that `--model` names; end the program if there is no such model."""
    try:
        return named_model(name)
    except argparse.ArgumentTypeError as error:
        parser.error(f"--model: {error}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="The paper's queries, one optimisation after the other.")
    add_engine_arguments(
        parser,
        chosen_blocks=f"{CACHE_BLOCKS} for joins; for paper too few for the largest query of a topic",
        chosen_in_flight=", ".join(f"{number} for {suite}" for suite, number in _IN_FLIGHT.items()),
    )
    parser.add_argument("--suite", default="joins", choices=tuple(SUITES), help="default: %(default)s")
    rows = " and ".join(f"{number:,} for {suite}" for suite, number in _ROWS.items())
    parser.add_argument("--rows", type=at_least_one, help=f"rows of each topic (default: {rows})")
    parser.add_argument("--topic", action="append", help="default: all of the suite that have tables here")
    parser.add_argument(
        "--queries", default="q1,q2,q3,q4,q5", help="names of queries, separated by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=at_least_one, default=1, help="measure everything so often (default %(default)s)"
    )
    parser.add_argument("--stored", action="store_true", help="rows in the order of the file (paper: by subject)")
    parser.add_argument("--quick", action="store_true", help="few rows on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the steps into this file (PNG or SVG)")
    given = parser.parse_args(arguments)
    names = ("quick", "suite", "rows", "rounds", "engine", "model", "in_flight", "stored")
    given.rows = given.rows or _ROWS[given.suite]
    given.in_flight = given.in_flight or _IN_FLIGHT[given.suite]
    if given.quick:
        given.rows, given.engine = _QUICK_ROWS[given.suite], "fake"
    head = {"bench": "llm_queries", **{name: getattr(given, name) for name in names}}
    with missing_table_ends(parser):
        topics = SUITES[given.suite]()
    if unknown := set(given.topic or []) - topics.keys():
        parser.error(f"--topic: no table here for {', '.join(unknown)}; choose from {', '.join(topics)}")
    chosen = {name: topic for name, topic in topics.items() if name in (given.topic or [name])}
    if not any(set(given.queries.split(",")) & topic.queries.keys() for topic in chosen.values()):
        those = "; ".join(f"{name} has {', '.join(topic.queries)}" for name, topic in chosen.items())
        parser.error(f"--queries: no topic has a query of {given.queries}: {those}")
    given.model = read_model(parser, given.model)
    announce("llm_queries", arguments)
    with missing_table_ends(parser):
        measured, caches, failed = measure_topics(given)
    found = {
        topic: {step: {name: merged(rounds) for name, rounds in queries.items()} for step, queries in steps.items()}
        for topic, steps in measured.items()
    }
    figures: Figures = {"caches": caches, "queries": found}
    if failed:  # sums would compare steps of different queries
        figures["failed"] = failed
    else:
        figures["totals"] = {topic: totals(steps) for topic, steps in measured.items()}
        figures["whole"] = totals(across(measured))
    if given.plot and not failed:
        plot_steps(found, given.plot)
    if given.json:
        print(json.dumps({**head, **figures, "machine": machine()}))
    end_unfinished(failed)


if __name__ == "__main__":
    main()
