"""What does a join by similar vectors of two large tables ask, keep and find?

    python -m bench.similar_join [--rows 100000] [--matches 5] [--dimensions 256] [--noise 0.6] [--quick] [--json]

Each table has `--rows` distinct texts. Each text of one table matches `--matches` texts of the other one. The query
promises a recall of 0.9. Vectors come from an endpoint over HTTP in a process of its own. The oracle of the pairs is an
engine that knows the labels. Server and oracle share a process, and the figure of memory is the peak of this process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import Options, at_least_one, report
from bench.setting import announce
from bench.vectors_endpoint import vectors_endpoint
from flightllm.config import Config, EmbeddingConfig, EngineConfig, LogConfig
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.registry import Engines
from flightllm.llm.engine import Completion, Request
from flightllm.log import configure_logging
from flightllm.session.database import Database

RECALL = 0.9
_SQL = (
    "SELECT a.id AS i, b.id AS j FROM orders a JOIN parts b ON ai_filter('The order {x} needs the part {y}',"
    f" x => a.t, y => b.t, strategy => 'STRATEGY', recall => {RECALL})"
)


class PairOracle(FakeEngine):
    """Answers whether two texts are about the same thing, and knows no property that decides this."""

    def __init__(self) -> None:
        super().__init__("demo", 128, FakeOptions())
        self.asked = 0

    def generate(self, requests: Iterator[Request | None], cancelled: Any) -> Iterator[Completion]:
        """Answer by the things that the texts name."""
        del cancelled
        for request in requests:
            if request is not None:
                self.asked += 1
                values = [value.rpartition("#")[2] for _, value in request.fields]
                said = ("Yes" if values[0] == values[1] else "No") if len(values) == 2 else '{"possible": false}'
                yield Completion(request.id, said, None, len(request.prompt) // 4, 0, 1)


def _run(rows: int, matches: int, url: str, strategy: str) -> dict[str, Any]:
    """Run the join in this process, and return its figures."""
    things = max(1, rows // matches)
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as name:
        files = {table: Path(name) / f"{table}.parquet" for table in ("orders", "parts")}
        for table, file in files.items():
            texts = [f"{table[:-1]} {n:06} is about thing #{n % things}" for n in range(rows)]
            pq.write_table(pa.table({"id": range(rows), "t": texts}), file)
        before, oracle = _peak(), PairOracle()
        config = Config(
            engine=EngineConfig("fake", "demo"),
            embedding=EmbeddingConfig("openai", "vectors", options={"base_url": url}),
            tables=files,
            data_folder=Path(name) / "data",
        )
        with closing(Database.open(config)) as opened:
            services = opened._services  # noqa: SLF001 - only benchmarks and tests put another engine under a database
            engines = Engines(config.engine, services.objects.engine, create=lambda _: oracle)
            session = Database(replace(services, engines=engines), opened.queries).session()
            started, found, wrong = time.perf_counter(), 0, 0
            result = session.execute(_SQL.replace("STRATEGY", strategy))
            for batch in result.batches:
                found += batch.num_rows
                wrong += sum(i % things != j % things for i, j in zip(*batch.to_pydict().values(), strict=True))
            seconds = time.perf_counter() - started
            calls = result.query.call_rows()
    join = next(call for call in calls if call["function"] == "ai_filter" and call["promise"])
    there = sum(len(range(thing, rows, things)) ** 2 for thing in range(things))
    return {
        "pairs": rows * rows,
        "matching": there,
        "found": found,
        "wrong": wrong,
        "recall": (found - wrong) / there,
        "questions": oracle.asked,
        "embedded": sum(call["calls"] for call in calls if call["function"] == "ai_embed"),
        "held": join["promise"]["held"],
        "way": join["notes"]["join"],
        "seconds": seconds,
        "peak_mib": _peak(),
        "peak_mib_before": before,
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(rows: int, matches: int, dimensions: int, noise: float, strategy: str = "embedding") -> dict[str, Any]:
    """Run the join in a new process, and return its figures."""
    with vectors_endpoint(dimensions, noise) as url:
        command = [sys.executable, "-m", "bench.similar_join", "--child", str(rows), str(matches), url, strategy]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="2,000 rows")
    parser.add_argument("--rows", type=at_least_one, default=100_000, help="rows of each table (default 100000)")
    parser.add_argument("--matches", type=at_least_one, default=5, help="matches of a row (default 5)")
    parser.add_argument("--dimensions", type=at_least_one, default=256, help="length of a vector (default 256)")
    parser.add_argument("--noise", type=float, default=0.6, help="length of a text's own part (default 0.6)")
    parser.add_argument("--strategy", default="embedding", help="the strategy of the join (default embedding)")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        configure_logging(LogConfig(level="error"))
        rows, matches, url, strategy = given.child
        print(json.dumps(_run(int(rows), int(matches), url, strategy)))
        return
    announce("similar_join", arguments)
    rows = min(given.rows, 2_000) if given.quick else given.rows
    figures = measure(rows, given.matches, given.dimensions, given.noise, given.strategy)
    for name, value in figures.items():
        print(
            f"{name:16}", f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else value
        )
    sizes = {"rows": rows, "matches": given.matches, "dimensions": given.dimensions}
    report("similar_join", Options(given.json, given.quick, 1), sizes | figures)


if __name__ == "__main__":
    main()
