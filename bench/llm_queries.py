"""Run the paper's queries step by step: a prefix cache, ordered prompts, deduplication, SQL rules.

    python -m bench.llm_queries [--model bench] [--rows 2000] [--topic movies] [--queries q1,q2] [--json] [--plot FILE]

Each step adds one optimisation to the step before. Every query of every step begins without cached answers and with an
empty prefix cache. The cache is too small for the texts that the query's prompts share. Speed-ups compare with the step
that has only the prefix cache, over all queries of a topic. They are also given in CPU seconds, which other work on the
machine hardly changes. `--stored` leaves the reviews in the order of their file instead of a random order.
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
from typing import Any, Final

from bench.common import cpu_seconds, machine
from bench.engines import CACHE_BLOCKS, engine_config, forget_prefixes, keeps_prefixes
from bench.models import SHAPES
from bench.plot import plot_steps
from bench.samples import sample, write
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


STEPS: Final = (
    Step("no prefix cache", prefix_cache=False, settings=_BASE),
    Step("prefix cache, original order", prefix_cache=True, settings=_BASE),
    Step("+ fixed order", prefix_cache=True, settings=_BASE | {"ordering": "fixed"}),
    Step("+ greedy order", prefix_cache=True, settings=_BASE | {"ordering": "greedy", "layout": "auto"}),
    Step(
        "+ deduplication",
        prefix_cache=True,
        settings=_BASE | {"ordering": "greedy", "layout": "auto", "dedup": "on"},
    ),
    Step("+ SQL rules", prefix_cache=True, settings={"cache": "off", "ordering": "greedy"}),
)
BASELINE: Final = STEPS[1].name
Figures = dict[str, Any]
Run = Callable[[str, Step], Figures]


def run(database: Database, sql: str, step: Step) -> Figures:
    """Run a query to its end; return wall seconds, calls and tokens, and the hit rate that EXPLAIN predicts."""
    predicted = predicted_hit_rate(database, sql, step)
    started, busy = time.perf_counter(), cpu_seconds()
    result = database.session().execute(sql, settings=step.settings)
    for _ in result.batches:
        pass
    spent = {"seconds": time.perf_counter() - started, "cpu_seconds": cpu_seconds() - busy}
    row = result.query.row()
    counted = {name: row[name] for name in ("rows", "calls", "prompt_tokens", "cached_tokens", "failed_rows")}
    return summed([{**spent, **counted}]) | {"predicted_hit_rate": predicted}


def predicted_hit_rate(database: Database, sql: str, step: Step) -> float:
    """Return the share of prompt tokens that EXPLAIN expects to be in the prefix cache."""
    result = database.session().execute(f"EXPLAIN (FORMAT json) {sql}", settings=step.settings)
    (text,) = (text for batch in result.batches for text in batch.column(0).to_pylist())
    return round(float(json.loads(text)["total"]["predicted"]["prefix_hit_rate"]), 4)


def summed(parts: Sequence[Figures]) -> Figures:
    """Return the sums of the figures, with the computed prompt tokens and the share that was cached."""
    names = ("seconds", "cpu_seconds", "rows", "calls", "prompt_tokens", "cached_tokens", "failed_rows")
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
    engine: Callable[..., EngineConfig], files: Mapping[str, Path], queries: Mapping[str, str]
) -> Iterator[tuple[str, str, Figures]]:
    """Yield step, query and figures, step by step. Steps with the same configuration of the engine share one engine."""
    for prefix_cache, steps in groupby(STEPS, key=lambda step: step.prefix_cache):
        with cold_runs(engine, files, prefix_cache=prefix_cache) as cold_run:
            for step in steps:
                for name, sql in queries.items():
                    yield step.name, name, cold_run(sql, step)


def totals(found: Mapping[str, Mapping[str, Figures]]) -> dict[str, Figures]:
    """Return the sums over the queries of each step, with the speed-ups over `BASELINE` and over the step before."""
    sums = {step: summed(list(queries.values())) for step, queries in found.items()}
    before = None
    for figures in sums.values():
        figures["speed_up"] = round(sums[BASELINE]["seconds"] / figures["seconds"], 2)
        figures["cpu_speed_up"] = round(sums[BASELINE]["cpu_seconds"] / max(0.01, figures["cpu_seconds"]), 2)
        figures["step_speed_up"] = round(before / figures["seconds"], 2) if before else None
        before = figures["seconds"]
    return sums


def table(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return a topic's figures as a Markdown table: the queries' seconds, then the totals."""
    sums = totals(found)
    queries = list(next(iter(found.values())))
    heads = [*(f"{q} s" for q in queries), "total s", "speed-up", "× step before", "CPU s"]
    lines = [["step", *heads, "in CPU s", "calls", "prompt tokens", "computed", "hit rate"]]
    for step, figures in sums.items():
        seconds = [f"{found[step][q]['seconds']:.1f}" for q in queries]
        ratios = [f"{figures['speed_up']:.2f}", f"{figures['step_speed_up'] or 1:.2f}"]
        ratios += [f"{figures['cpu_seconds']:.0f}", f"{figures['cpu_speed_up']:.2f}"]
        tokens = [f"{figures[name]:,}" for name in ("calls", "prompt_tokens", "computed_tokens")]
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


def measure_topic(topic: str, given: argparse.Namespace) -> dict[str, dict[str, Figures]]:
    """Run a topic's queries over a sample of its tables; return figures by step and query."""
    suite = suites()[topic]
    queries = {name: sql for name, sql in suite.queries.items() if name in given.queries.split(",")}
    found: dict[str, dict[str, Figures]] = {}
    engine = partial(engine_config, given.engine, SHAPES[given.model], given.cache_blocks)
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        files = write(sample(suite.pair, given.rows, stored=given.stored), Path(folder))
        for step, query, figures in measure(engine, files, queries):
            print(f"{topic}, {step}, {query}: {json.dumps(figures)}", flush=True)
            found.setdefault(step, {})[query] = figures
    low, high = suite.paper
    print(f"\n{topic}, {given.rows} rows; the paper's speed-up is {low} to {high}\n\n{table(found)}\n", flush=True)
    print(f"{predictions(found)}\n", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="The paper's queries, one optimisation after the other.")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "local", "fake"))
    parser.add_argument(
        "--model", default="bench", choices=tuple(SHAPES), help="the model's size in vLLM; 7b needs a GPU"
    )
    parser.add_argument("--rows", type=int, default=2_000, help="joined rows of each topic (default 2000)")
    parser.add_argument(
        "--cache-blocks", type=int, default=CACHE_BLOCKS, help="cache blocks of 32 tokens (default %(default)s)"
    )
    parser.add_argument("--topic", action="append", choices=tuple(suites()), help="default: all")
    parser.add_argument("--queries", default="q1,q2,q3,q4")
    parser.add_argument("--stored", action="store_true", help="leave reviews in the order of their file")
    parser.add_argument("--quick", action="store_true", help="200 rows on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the steps into this file (PNG or SVG)")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.engine = 200, "fake"
    announce("llm_queries", arguments)
    found = {topic: measure_topic(topic, given) for topic in given.topic or suites()}
    if given.plot:
        plot_steps(found, given.plot)
    if given.json:
        sums = {topic: totals(steps) for topic, steps in found.items()}
        names = ("quick", "rows", "engine", "model", "cache_blocks", "stored")
        head = {"bench": "llm_queries", **{name: getattr(given, name) for name in names}}
        print(json.dumps({**head, "queries": found, "totals": sums, "machine": machine()}))


if __name__ == "__main__":
    main()
