"""Measure interactive queries beside two bulk queries on two engines.

    python -m bench.interactive [--model bench] [--rows 500] [--clients 4] [--repeats 3] [--quick] [--json]

Two vLLM servers run on this machine, with priority scheduling. Two bulk queries ask about the same reviews at the same
time. Until the first of them ends, clients ask about one review each, with a random pause between two questions. An
answer has one word, so its seconds are those to the first token, with the planning of the query. `--quick` uses two
fake engines, whose answers take the same time at any load.
"""

import argparse
import json
import random
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from bench.common import machine, quantile, read_to_end, timed
from bench.engines import CACHE_BLOCKS
from bench.models import SHAPES
from bench.router_live import REPLICAS, Tables, cluster, empty, servers
from bench.samples import sample, write
from bench.setting import announce, open_database
from bench.suite import suites
from flightllm.session.database import Database

BULK: Final = ("Is the review fair?", "Does the review praise the film?")
_THINK: Final = 0.2
"""The mean pause of a client in seconds."""
_WARM: Final = 3.0
"""The seconds after which the clients begin: the bulk queries then fill the engines."""


def _run(database: Database, sql: str, priority: str) -> None:
    read_to_end(database.session().execute(sql, settings={"cache": "off", "priority": priority}).batches)


def _ask(database: Database, seed: int, ended: threading.Event, found: list[float]) -> None:
    """Ask about one review after the other until a bulk query ends."""
    draw = random.Random(seed)  # noqa: S311 - reproducible pauses
    while not ended.wait(draw.expovariate(1 / _THINK)):
        sql = f"SELECT ai_filter('Is it short?', review_content) FROM movie_reviews LIMIT 1 OFFSET {draw.randrange(99)}"
        seconds = timed(partial(_run, database, sql, "auto"))
        if not ended.is_set():
            found.append(seconds)


def beside(database: Database, rows: str, clients: int, warm: float) -> tuple[list[float], list[float]]:
    """Return the seconds of the interactive queries and of the two bulk queries; `rows` is a subquery."""
    ended, interactive = threading.Event(), list[float]()

    def work(question: str) -> float:
        sql = f"SELECT count(*) FROM ({rows}) AS r WHERE ai_filter('{question}', movie_info, review_content)"
        try:
            return timed(lambda: _run(database, sql, "bulk"))
        finally:
            ended.set()

    with ThreadPoolExecutor(len(BULK) + clients) as pool:
        bulk = [pool.submit(work, question) for question in BULK]
        ended.wait(warm)
        asking = [pool.submit(_ask, database, number, ended, interactive) for number in range(clients)]
        for one in asking:
            one.result()
        return interactive, [one.result() for one in bulk]


def measure(tables: Tables, given: argparse.Namespace) -> dict[str, float]:
    """Return the figures of all repetitions together."""
    interactive, bulk = list[float](), list[float]()
    rows = f"SELECT movie_info, review_content FROM movies JOIN movie_reviews USING (movie_id) LIMIT {given.rows}"
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        files: Mapping[str, Path] = write(sample(suites()["movies"].pair, given.rows), Path(folder))
        for _ in range(given.repeats):
            empty(tables)
            with open_database(cluster(tables, "e2_batch"), files) as database:
                asked, ran = beside(database, rows, given.clients, 0.0 if given.quick else _WARM)
            interactive += asked
            bulk += ran
    figures = {"p50": quantile(interactive, 0.5), "p99": quantile(interactive, 0.99)}
    return {"interactive": len(interactive), **figures, "bulk_seconds": median(bulk)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Interactive queries beside two bulk queries on two engines.")
    parser.add_argument("--model", default="bench", choices=tuple(SHAPES))
    parser.add_argument("--rows", type=int, default=500, help="joined rows of each bulk query (default 500)")
    parser.add_argument("--clients", type=int, default=4, help="interactive clients (default 4)")
    parser.add_argument("--repeats", type=int, default=3, help="runs (default 3)")
    parser.add_argument("--quick", action="store_true", help="100 rows, once, on fake engines")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.repeats = 100, 1
    announce("interactive", arguments)
    with ExitStack() as stack:
        tables: Tables = [{"kind": "fake", "latency_ms": 20, "cache_blocks": 640}] * REPLICAS
        if not given.quick:
            started = stack.enter_context(servers(SHAPES[given.model], CACHE_BLOCKS, "--scheduling-policy", "priority"))
            tables = [{**one, "priority": True, "prompts_per_request": 1} for one in started]
        found = measure(tables, given)
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    if given.json:
        print(json.dumps({"bench": "interactive", "quick": given.quick, **found, "machine": machine()}))


if __name__ == "__main__":
    main()
