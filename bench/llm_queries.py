"""Run the paper's queries step by step: a prefix cache, deduplication, ordered prompts, SQL rules.

    python -m bench.llm_queries [--suite paper] [--model bench|FOLDER] [--rows N] [--topic movies] [--queries q1,q2]
        [--json] [--plot FILE]

Each step adds one optimisation to the step before. Every query of every step begins without cached answers and with an
empty prefix cache. At the default of rows, the texts that `joins` share are larger than the cache. Speed-ups compare
with the step that has only the prefix cache, over all queries of a topic. They are also given in CPU seconds, which
other work on the machine hardly changes. `--stored` leaves the reviews in the order of their
file instead of a random order.

`--suite joins` joins reviews with their subjects, and asks short questions. `--suite paper` has instructions of the
paper's length, the paper's five queries, and all columns as fields, see `bench.paper`.

Beside the computed tokens of each query stands the least number of tokens that any order must compute. `least_tokens`
holds for the prompts of this step in any order, and `least_block_tokens` for a cache of whole blocks.
`any_order_tokens` holds for any order of the fields too; see `bench.trie`.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from bench.common import cpu_seconds, machine
from bench.engines import (
    CACHE_BLOCKS,
    IN_FLIGHT,
    engine_config,
    forget_prefixes,
    keeps_prefixes,
    least_tokens,
    requests_sent,
)
from bench.models import SHAPES, Model, named_model
from bench.paper import topics as paper_topics
from bench.plot import plot_steps
from bench.samples import write
from bench.setting import announce, open_database
from bench.suite import suites
from flightllm.config import EngineConfig
from flightllm.session.database import Database

_BASE: Final = {"cache": "off", "ordering": "none", "layout": "instruction", "dedup": "off", "rules": "off"}
_WARM_UP: Final = (
    "SELECT ai_gen('Warm up.', 'text',"
    " max_tokens => 8, on_truncated => 'keep'), ai_filter('Warm up?', 'text'), ai_score('Warm up?', 'text')"
)


@dataclass(frozen=True, slots=True)
class Step:
    """The configuration of one step: its settings, and whether the engine has a prefix cache."""

    name: str
    prefix_cache: bool
    settings: Mapping[str, str]


_DEDUPLICATED: Final = _BASE | {"dedup": "on"}
STEPS: Final = (
    Step("no prefix cache", prefix_cache=False, settings=_BASE),
    Step("prefix cache, original order", prefix_cache=True, settings=_BASE),
    Step("and deduplication", prefix_cache=True, settings=_DEDUPLICATED),
    Step("and fixed order", prefix_cache=True, settings=_DEDUPLICATED | {"ordering": "fixed"}),
    Step("and greedy order", prefix_cache=True, settings=_DEDUPLICATED | {"ordering": "greedy", "layout": "auto"}),
    Step("and SQL rules", prefix_cache=True, settings={"cache": "off", "ordering": "greedy"}),
)
BASELINE: Final = STEPS[1].name
_COUNTS: Final = ("rows", "calls", "prompt_tokens", "cached_tokens", "failed_rows")
_LEAST: Final = ("least_tokens", "least_block_tokens", "any_order_tokens")
Figures = dict[str, Any]


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


_ROWS: Final = {"joins": 2_000, "paper": 60}
"""The rows of each topic; a model of 135 million parameters on two CPU cores takes at most 30 minutes for `paper`."""
_QUICK_ROWS: Final = {"joins": 200, "paper": 40}
SUITES: Final[Mapping[str, Callable[[], Mapping[str, Workload]]]] = {"joins": suites, "paper": paper_topics}
Run = Callable[[str, Step], Figures]


def run(database: Database, sql: str, step: Step) -> Figures:
    """Run a query to its end; return wall seconds, calls and tokens, bounds, and the hit rate that EXPLAIN predicts."""
    predicted = predicted_hit_rate(database, sql, step)
    with requests_sent(database.engine) as sent:
        started, busy = time.perf_counter(), cpu_seconds()
        result = database.session().execute(sql, settings=step.settings)
        for _ in result.batches:
            pass
        spent = {"seconds": time.perf_counter() - started, "cpu_seconds": cpu_seconds() - busy}
    row = result.query.row()
    counted = {name: row[name] for name in _COUNTS}
    bounds = least_tokens(database.engine, sent)
    return summed([{**spent, **counted, **bounds}]) | {"predicted_hit_rate": predicted}


def predicted_hit_rate(database: Database, sql: str, step: Step) -> float:
    """Return the share of prompt tokens that EXPLAIN expects to be in the prefix cache."""
    result = database.session().execute(f"EXPLAIN (FORMAT json) {sql}", settings=step.settings)
    (text,) = (text for batch in result.batches for text in batch.column(0).to_pylist())
    return round(float(json.loads(text)["total"]["predicted"]["prefix_hit_rate"]), 4)


def summed(parts: Sequence[Figures]) -> Figures:
    """Return the sums of the figures, with the computed prompt tokens and the share that was cached."""
    names = ("seconds", "cpu_seconds", *_COUNTS, *_LEAST, "undivided_prompts")
    total: Figures = {name: sum(part[name] for part in parts) for name in names}
    total["computed_tokens"] = total["prompt_tokens"] - total["cached_tokens"]
    total["hit_rate"] = round(total["cached_tokens"] / max(1, total["prompt_tokens"]), 4)
    return total | {name: round(total[name], 2) for name in names[:2]}


@contextmanager
def cold_runs(
    engine: Callable[..., EngineConfig],
    files: Mapping[str, Path],
    *,
    prefix_cache: bool,
    prepare: Callable[[Database], object] = Database.session,
) -> Iterator[Run]:
    """Yield a function that runs a query with an empty prefix cache.

    All runs use one engine if it can empty its prefix cache, else each run opens a new engine.

    `prepare` is called with each database before its first query.
    """
    config = engine(prefix_cache=prefix_cache)
    with open_database(config, files) as database:
        prepare(database)
        for _ in database.session().execute(_WARM_UP, settings=_BASE).batches:
            pass

        def forget_and_run(sql: str, step: Step) -> Figures:
            if keeps_prefixes(database.engine):
                forget_prefixes(database.engine)
                return run(database, sql, step)
            with open_database(config, files) as fresh:
                prepare(fresh)
                return run(fresh, sql, step)

        yield forget_and_run


def measure(
    engine: Callable[..., EngineConfig], files: Mapping[str, Path], queries: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str, str, Figures]]:
    """Yield topic, step, query and figures, step by step.

    `queries` has the SQL by topic and query. Steps with the same configuration of the engine share one engine.
    """
    for prefix_cache, steps in groupby(STEPS, key=lambda step: step.prefix_cache):
        with cold_runs(engine, files, prefix_cache=prefix_cache) as cold_run:
            for step in steps:
                for topic, named in queries.items():
                    for name, sql in named.items():
                        yield topic, step.name, name, cold_run(sql, step)


def across(found: Mapping[str, Mapping[str, Mapping[str, Figures]]]) -> dict[str, dict[str, Figures]]:
    """Return the queries of all topics by step; each query's name begins with its topic."""
    together: dict[str, dict[str, Figures]] = {}
    for topic, steps in found.items():
        for step, queries in steps.items():
            together.setdefault(step, {}).update({f"{topic} {name}": one for name, one in queries.items()})
    return together


def totals(found: Mapping[str, Mapping[str, Figures]]) -> dict[str, Figures]:
    """Return the sums over the queries of each step, with speed-ups.

    They are over `BASELINE`, over the step before, and over no prefix cache.
    """
    sums = {step: summed(list(queries.values())) for step, queries in found.items()}
    before = None
    for figures in sums.values():
        figures["speed_up"] = round(sums[BASELINE]["seconds"] / max(0.01, figures["seconds"]), 2)
        figures["cpu_speed_up"] = round(sums[BASELINE]["cpu_seconds"] / max(0.01, figures["cpu_seconds"]), 2)
        figures["no_cache_speed_up"] = round(sums[STEPS[0].name]["seconds"] / max(0.01, figures["seconds"]), 2)
        figures["step_speed_up"] = round(before / max(0.01, figures["seconds"]), 2) if before else None
        before = figures["seconds"]
    return sums


def table(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return a topic's figures as a Markdown table: the queries' seconds, then the totals."""
    sums = totals(found)
    queries = list(next(iter(found.values())))
    heads = [*(f"{q} s" for q in queries), "total s", "speed-up", "× step before", "CPU s"]
    counts = ["calls", "prompt tokens", "computed", "least", "in blocks", "any field order"]
    lines = [["step", *heads, "in CPU s", *counts, "hit rate"]]
    for step, figures in sums.items():
        seconds = [f"{found[step][q]['seconds']:.1f}" for q in queries]
        ratios = [f"{figures['speed_up']:.2f}", f"{figures['step_speed_up'] or 1:.2f}"]
        ratios += [f"{figures['cpu_seconds']:.0f}", f"{figures['cpu_speed_up']:.2f}"]
        tokens = [f"{figures[name]:,}" for name in ("calls", "prompt_tokens", "computed_tokens", *_LEAST)]
        lines.append(
            [step, *seconds, f"{figures['seconds']:.1f}", *ratios, *tokens, f"{100 * figures['hit_rate']:.1f} %"]
        )
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def predictions(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return a Markdown table of predicted and actual hit rates, for each query and each step with a prefix cache."""
    steps = {step: queries for step, queries in found.items() if step != STEPS[0].name}
    lines = [
        ["hit rate predicted / actual, %", *next(iter(steps.values()))],
        ["---"] * (1 + len(next(iter(steps.values())))),
    ]
    for step, queries in steps.items():
        rates = [f"{100 * f['predicted_hit_rate']:.1f} / {100 * f['hit_rate']:.1f}" for f in queries.values()]
        lines.append([step, *rates])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure_topics(given: argparse.Namespace) -> dict[str, dict[str, dict[str, Figures]]]:
    """Run the queries over samples of the topics' tables; return figures by topic, step and query."""
    topics = {name: topic for name, topic in SUITES[given.suite]().items() if name in (given.topic or [name])}
    wanted = given.queries.split(",")
    queries = {
        topic: {name: sql for name, sql in suite.queries.items() if name in wanted} for topic, suite in topics.items()
    }
    found: dict[str, dict[str, dict[str, Figures]]] = {topic: {} for topic in topics}
    engine = partial(engine_config, given.engine, given.model, given.cache_blocks, given.in_flight)
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        tables = [suite.tables(given.rows, stored=given.stored) for suite in topics.values()]
        files = {name: path for one in tables for name, path in write(one, Path(folder)).items()}
        for topic, step, query, figures in measure(engine, files, queries):
            print(f"{topic}, {step}, {query}: {json.dumps(figures)}", flush=True)
            found[topic].setdefault(step, {})[query] = figures
    for topic, suite in topics.items():
        low, high = suite.paper
        reported = f"{low}" if low == high else f"{low} to {high}"
        print(f"\n{topic}, {given.rows} rows; the paper's speed-up is {reported}\n\n{table(found[topic])}\n")
        print(f"{predictions(found[topic])}\n", flush=True)
    return found


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the engine, its model and its cache."""
    parser.add_argument("--engine", default="vllm", choices=("vllm", "local", "fake"))
    parser.add_argument(
        "--model",
        default="bench",
        help=f"vLLM's model: a size of {', '.join(SHAPES)} with random weights (7b needs a GPU), or a model's folder",
    )
    parser.add_argument(
        "--cache-blocks", type=int, default=CACHE_BLOCKS, help="cache blocks of 32 tokens (default %(default)s)"
    )
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="prompts at once (default %(default)s)")


def read_model(parser: argparse.ArgumentParser, name: str) -> Model:
    """Return the model that `--model` names; end the program if there is no such model."""
    try:
        return named_model(name)
    except argparse.ArgumentTypeError as error:
        parser.error(f"--model: {error}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="The paper's queries, one optimisation after the other.")
    add_engine_arguments(parser)
    parser.add_argument("--suite", default="joins", choices=tuple(SUITES), help="default: %(default)s")
    parser.add_argument("--rows", type=int, help=f"rows of each topic (default: {_ROWS})")
    parser.add_argument("--topic", action="append", help="default: all of the suite that have tables here")
    parser.add_argument("--queries", default="q1,q2,q3,q4,q5")
    parser.add_argument("--stored", action="store_true", help="leave reviews in the order of their file")
    parser.add_argument("--quick", action="store_true", help="few rows on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the steps into this file (PNG or SVG)")
    given = parser.parse_args(arguments)
    names = ("quick", "suite", "rows", "engine", "model", "cache_blocks", "stored")
    given.rows = given.rows or _ROWS[given.suite]
    if given.quick:
        given.rows, given.engine = _QUICK_ROWS[given.suite], "fake"
    head = {"bench": "llm_queries", **{name: getattr(given, name) for name in names}}
    if unknown := set(given.topic or []) - SUITES[given.suite]().keys():
        parser.error(f"--topic: no table here for {', '.join(unknown)}; choose from {', '.join(SUITES[given.suite]())}")
    given.model = read_model(parser, given.model)
    announce("llm_queries", arguments)
    found = measure_topics(given)
    if given.plot:
        plot_steps(found, given.plot)
    if given.json:
        sums = {topic: totals(steps) for topic, steps in found.items()}
        whole = totals(across(found))
        print(json.dumps({**head, "queries": found, "totals": sums, "whole": whole, "machine": machine()}))


if __name__ == "__main__":
    main()
