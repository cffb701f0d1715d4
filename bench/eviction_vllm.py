"""How much time does an eviction policy save in vLLM, for large queries and for single rows beside them?

    python -m bench.eviction_vllm [--blocks 128 256 512] [--policies none workload_aware planned] [--model bench]
        [--dtype bfloat16] [--rows 400] [--asked 100] [--rate 3] [--repeats 3] [--quick] [--json]

One vLLM on this machine serves two queries over all reviews of movies and of products. Meanwhile a client asks for
single rows from a few call sites with long instructions. They come at the times of the Azure conversation trace, or
without `FLIGHTLLM_DATA` at random times. Each policy has an engine of its own with an empty cache; `none` is vLLM's own
order. Each figure is the median of the runs, in which the policies take turns. The model's weights are random, so in
16-bit numbers an answer depends on the prompts of the same batch. With `--dtype float32` it hardly does. `--quick` is a
small run on the demo model.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import numpy as np

from bench.common import Options, markdown, report
from bench.models import SHAPES, model
from bench.router_workloads import azure, poisson
from bench.samples import sample, write
from bench.setting import announce, open_database
from bench.suite import suites
from flightllm.config import EngineConfig
from flightllm.session.database import Database

BLOCK_TOKENS: Final = 32
IN_FLIGHT: Final = 64
AT_ONCE: Final = 6
STEP_TOKENS: Final = 512
"""Tokens computed in one step: few, so that a single row does not wait long for the prompts of other queries."""
SITES: Final = 4
QUERY: Final = "q1"
_RULES: Final = (
    "It is written for somebody who has one minute and has not seen the product",
    "It says first what the product is, then what its writer thinks of it",
    "It keeps names as they are written, and explains none of them",
    "It leaves out prices, dates and places unless it is about them",
    "It does not say what other reviews are worth",
    "Irony counts for what it means, not for what it says",
    "Where it compares, it names both sides and which one is liked better",
    "Where it contradicts itself, what comes last counts",
    "It has no word that nobody needs",
    "It may be in any language",
)
"""The rules in the instructions for single rows."""


@dataclass(frozen=True, slots=True)
class Run:
    """The figures and answers of one run."""

    prompt_tokens: int
    computed_tokens: int
    interactive_hits: float
    """The share of the single rows' prompt tokens that were cached."""
    seconds: float
    """The time of the two queries."""
    waits: tuple[float, ...]
    """Seconds until each single row was answered."""
    answers: tuple[Any, ...]

    def figures(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "hits": 1 - self.computed_tokens / self.prompt_tokens,
            "computed": self.computed_tokens,
            "interactive_hits": self.interactive_hits,
            "seconds": self.seconds,
            "p50": median(self.waits),
            "p99": quantiles(self.waits, n=100, method="inclusive")[98],
        }


def instruction(site: int) -> str:
    """Return the long instruction of a call site. The instructions of two call sites begin differently."""
    rules = [f"Rule {number + 1}: {_RULES[(number + site) % len(_RULES)]}." for number in range(3 * len(_RULES))]
    return f"You are reader {site} of a shop and look whether a review follows its rules. {' '.join(rules)}"


def question(number: int, rows: int) -> str:
    """Return the SQL of the n-th query for a single row."""
    place = (7 * number) % rows
    return (
        f"SELECT ai_filter('{instruction(number % SITES)}', review_text) AS answer "
        f"FROM (SELECT review_text FROM product_reviews ORDER BY review_text LIMIT 1 OFFSET {place})"
    )


def run_sql(database: Database, sql: str) -> tuple[list[Any], dict[str, Any]]:
    """Run a query to its end; return its rows and its counters."""
    result = database.session().execute(sql, settings={"cache": "off"})
    rows = [row for batch in result.batches for row in batch.to_pylist()]
    return rows, dict(result.query.row())


@contextmanager
def files(rows: int) -> Iterator[Mapping[str, Path]]:
    """Yield the files of both topics' tables, reduced to about `rows` joined rows each."""
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        yield {k: v for suite in suites().values() for k, v in write(sample(suite.pair, rows), Path(folder)).items()}


def engine(given: argparse.Namespace, policy: str, blocks: int) -> EngineConfig:
    """Return vLLM with `blocks` blocks, which running requests and the prefix cache share."""
    shape = SHAPES[given.model]
    options: dict[str, object] = {
        "kv_cache_memory_bytes": shape.kv_bytes(blocks * BLOCK_TOKENS) * (2 if given.dtype == "float32" else 1),
        "block_size": BLOCK_TOKENS,
        "dtype": given.dtype,
        "max_model_len": 2_048,
        "kv_eviction": policy,
        "engine_args": {"max_num_seqs": AT_ONCE, "max_num_batched_tokens": STEP_TOKENS},
    }
    return EngineConfig("vllm", str(model(shape)), IN_FLIGHT, options)


def run(given: argparse.Namespace, config: EngineConfig, tables: Mapping[str, Path]) -> Run:
    """Run the two queries, and the queries for single rows beside them, on a new engine."""
    sqls = [suite.queries[QUERY] for suite in suites().values()]
    random = np.random.default_rng(5)
    traced = "FLIGHTLLM_DATA" in os.environ
    times = list((partial(azure, "azure_trace_conv") if traced else poisson)(random, given.asked, given.rate))
    with open_database(config, tables) as database, ThreadPoolExecutor(len(times) + len(sqls)) as pool:
        run_sql(database, "SELECT ai_filter('Is it short?', movie_info) FROM (SELECT movie_info FROM movies LIMIT 4)")
        waits: dict[int, float] = {}
        started = time.perf_counter()
        lasted: list[float] = []

        def ask(number: int) -> tuple[list[Any], dict[str, Any]]:
            begun = time.perf_counter()
            found = run_sql(database, question(number, given.rows))
            waits[number] = time.perf_counter() - begun
            return found

        def bulk(sql: str) -> tuple[list[Any], dict[str, Any]]:
            found = run_sql(database, sql)
            lasted.append(time.perf_counter() - started)
            return found

        bulks = [pool.submit(bulk, sql) for sql in sqls]
        asked = []
        for number, second in enumerate(times):
            time.sleep(max(0.0, started + second - time.perf_counter()))
            asked.append(pool.submit(ask, number))
        found = [one.result() for one in (*bulks, *asked)]
    counters = [counter for _, counter in found]
    single = counters[len(sqls) :]
    return Run(
        sum(one["prompt_tokens"] for one in counters),
        sum(one["prompt_tokens"] - one["cached_tokens"] for one in counters),
        sum(one["cached_tokens"] for one in single) / sum(one["prompt_tokens"] for one in single),
        max(lasted),
        tuple(waits.values()),
        tuple(rows for rows, _ in found),
    )


def equal(one: Run, other: Run) -> float:
    """Return the share of rows with the same answer in two runs."""
    pairs = [(_sorted(mine), _sorted(theirs)) for mine, theirs in zip(one.answers, other.answers, strict=True)]
    alike = sum(left == right for mine, theirs in pairs for left, right in zip(mine, theirs, strict=True))
    return alike / sum(len(mine) for mine, _ in pairs)


def _sorted(rows: Sequence[Any]) -> list[str]:
    return sorted(map(repr, rows))


def measure(given: argparse.Namespace, blocks: int) -> dict[str, dict[str, float]]:
    """Return the figures of each policy with `blocks` blocks."""
    runs: dict[str, list[Run]] = {policy: [] for policy in given.policies}
    with files(given.rows) as tables:
        for _ in range(given.repeats):
            for policy, done in runs.items():
                done.append(run(given, engine(given, policy, blocks), tables))
                print(f"# {blocks} blocks, {policy}: {done[-1].figures()}", flush=True)
    first = runs[given.policies[0]][0]
    found = {}
    for policy, done in runs.items():
        figures = [one.figures() for one in done]
        found[policy] = {name: median(one[name] for one in figures) for name in figures[0]}
        found[policy]["equal"] = median(equal(first, one) for one in done)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", nargs="+", type=int, default=[128, 256, 512])
    parser.add_argument("--policies", nargs="+", default=["none", "workload_aware", "planned"])
    parser.add_argument("--model", default="bench", choices=tuple(SHAPES))
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--rows", type=int, default=400, help="joined rows of each query (default 400)")
    parser.add_argument("--asked", type=int, default=100, help="single rows (default 100)")
    parser.add_argument("--rate", type=float, default=3.0, help="single rows a second (default 3)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="40 rows and 8 single ones, on the demo model, once")
    given = parser.parse_args(arguments)
    if given.quick:
        given.model, given.rows, given.asked, given.rate, given.repeats = "demo", 40, 8, 4.0, 1
        given.blocks = given.blocks[:1]
    announce("eviction_vllm", arguments)
    found = {blocks: measure(given, blocks) for blocks in given.blocks}
    heads = {
        "hits %": lambda one: f"{100 * one['hits']:.1f}",
        "tokens computed": lambda one: f"{one['computed']:,.0f}",
        "single rows' hits %": lambda one: f"{100 * one['interactive_hits']:.1f}",
        "p50, ms": lambda one: f"{1e3 * one['p50']:.0f}",
        "p99, ms": lambda one: f"{1e3 * one['p99']:.0f}",
        "two queries, s": lambda one: f"{one['seconds']:.1f}",
        "equal answers %": lambda one: f"{100 * one['equal']:.1f}",
    }
    rows = {f"{blocks}, {policy}": one for blocks, policies in found.items() for policy, one in policies.items()}
    print(markdown("blocks, policy", heads, rows))
    if given.json:
        report("eviction_vllm", Options(given.json, given.quick, given.repeats), {str(k): v for k, v in found.items()})


if __name__ == "__main__":
    main()
