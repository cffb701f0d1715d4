"""Measure the seconds of a small query while a large query uses the same engine, with priorities and without.

    python -m bench.priorities [--model demo] [--rows 2000] [--repeats 10] [--quick] [--json]

vLLM on this machine receives more prompts than it answers at a time, so that some wait in its own queue. One session
queries all rows over and over. Its prompts have a lower priority than others (`flightllm.priority` is `bulk`) or the
same priority (`interactive`), in turns. Another session queries eight rows, one query after the other. `--quick` uses a
fake engine, which ignores priorities.
"""

import argparse
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bench.common import machine, read_to_end, timed
from bench.models import SHAPES, model
from bench.samples import sample, write
from bench.setting import announce, open_database
from bench.suite import suites
from flightllm.config import EngineConfig
from flightllm.session.database import Database

IN_FLIGHT: Final = 64
AT_ONCE: Final = 8
SMALL: Final = "SELECT ai_filter('Is it short?', movie_info) FROM (SELECT movie_info FROM movies LIMIT 8)"
LARGE: Final = "q2"


def engine(given: argparse.Namespace) -> EngineConfig:
    """Return the engine: vLLM with fewer slots than prompts in flight."""
    if given.quick:
        return EngineConfig("fake", "demo", IN_FLIGHT, {"latency_ms": 5})
    shape = SHAPES[given.model]
    options: dict[str, object] = {
        "kv_cache_memory_bytes": shape.kv_bytes(640 * 32),
        "dtype": "bfloat16",
        "max_model_len": 8192,
        "engine_args": {"max_num_seqs": AT_ONCE},
    }
    return EngineConfig("vllm", str(model(shape)), IN_FLIGHT, options)


@contextmanager
def busy(database: Database, sql: str, priority: str) -> Iterator[None]:
    """Run a query over and over in a thread until the block ends."""
    stopped, begun = threading.Event(), threading.Event()

    def work() -> None:
        while not stopped.is_set():
            settings = {"cache": "off", "priority": priority}
            result = database.session().execute(sql, settings=settings)
            begun.set()
            for _ in result.batches:
                if stopped.is_set():
                    break

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def small(database: Database) -> None:
    """Run the small query."""
    read_to_end(database.session().execute(SMALL, settings={"cache": "off"}).batches)


def measure(given: argparse.Namespace) -> dict[str, list[float]]:
    """Return the seconds of the small query without the large one, and beside it with each priority."""
    suite = suites()["movies"]
    found: dict[str, list[float]] = {"alone": [], "equal": [], "before": []}
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        files = write(sample(suite.pair, given.rows), Path(folder))
        with open_database(engine(given), files) as database:
            small(database)
            found["alone"] = [timed(lambda: small(database)) for _ in range(given.repeats)]
            for _ in range(2):
                for kind, priority in (("equal", "interactive"), ("before", "bulk")):
                    with busy(database, suite.queries[LARGE], priority):
                        found[kind] += [timed(lambda: small(database)) for _ in range(given.repeats)]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="A small query beside a large one, with priorities and without.")
    parser.add_argument("--model", default="demo", choices=tuple(SHAPES))
    parser.add_argument("--rows", type=int, default=2_000, help="joined rows of the large query (default 2000)")
    parser.add_argument("--repeats", type=int, default=10, help="small queries in a row (default 10)")
    parser.add_argument("--quick", action="store_true", help="200 rows, twice, on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.repeats = 200, 2
    announce("priorities", arguments)
    found = measure(given)
    for kind, seconds in found.items():
        print(f"{kind:10} median {median(seconds):.3f} s, most {max(seconds):.3f} s, {len(seconds)} queries")
    if given.json:
        figures = {kind: {"median": median(seconds), "most": max(seconds)} for kind, seconds in found.items()}
        print(json.dumps({"bench": "priorities", "quick": given.quick, **figures, "machine": machine()}))


if __name__ == "__main__":
    main()
