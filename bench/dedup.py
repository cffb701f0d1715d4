"""How many calls does ai_dedup send, and are its groups as precise as promised?

    python -m bench.dedup [--rows 5000] [--seeds 20] [--errors 0 0.02] [--precision 0.95] [--quick]
                          [--json]

Each seed makes other records, of which a fifth repeats another record in another spelling. A simulated model says
whether two records are about the same thing. It knows the truth, and is wrong in the stated share of the prompts, by a
hash of the prompt. Precision and recall count pairs of records, against the truth: a pair is found where both records
have the same answer of ai_dedup. `misses` is the share of seeds below the precision target.
"""

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import Options, at_least_one, markdown, options_parser, report
from bench.dirty_records import Records, make
from bench.setting import announce, database_over
from flightllm.config import EngineConfig
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.llm.engine import Completion, Request

DUPLICATES = 0.2


class PairOracle(FakeEngine):
    """Answers whether two records are about the same thing, and errs in a share of the prompts."""

    def __init__(self, records: Records, error: float, seed: int) -> None:
        """`seed` decides which prompts get a wrong answer."""
        super().__init__("demo", 128, FakeOptions())
        self.thing = {" ".join(text.split()): thing for text, thing in zip(*_columns(records), strict=True)}
        self.error, self.seed, self.asked = error, seed, 0

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer by the truth, or by its opposite."""
        del cancelled
        for request in requests:
            if request is not None:
                self.asked += 1
                yield Completion(request.id, self._said(request), None, len(request.prompt) // 4, 0, 1)

    def _said(self, request: Request) -> str:
        one, other = (self.thing[" ".join(value.split())] for _, value in request.fields)
        key = f"{self.seed} {request.prompt}".encode()
        wrong = int.from_bytes(blake2b(key, digest_size=8).digest()) < self.error * 2**64
        return "Yes" if (one == other) != wrong else "No"


@dataclass(frozen=True, slots=True)
class Run:
    """One table: what its groups are worth, and what they cost."""

    precision: float
    recall: float
    calls: int
    seconds: float


def run(rows: int, seed: int, error: float, precision: float) -> Run:
    """Find the duplicates of one table through SQL, and count against the truth."""
    records = make(rows, DUPLICATES, seed)
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        path = Path(folder) / "records.parquet"
        pq.write_table(pa.table({"thing": records.things, "record": records.texts}), path)
        oracle = PairOracle(records, error, seed)
        with database_over(oracle, EngineConfig("fake", "demo"), {"records": path}) as database:
            started = time.perf_counter()
            sql = f"SELECT thing, ai_dedup(record, precision => {precision:g}) AS kept FROM records"
            result = database.session().execute(sql, settings={"cache": "off"})
            found = [(row["thing"], row["kept"]) for batch in result.batches for row in batch.to_pylist()]
            seconds = time.perf_counter() - started
    together = _pairs(Counter(kept for _, kept in found))
    right = _pairs(Counter(found))
    wanted = _pairs(Counter(thing for thing, _ in found))
    return Run(right / together if together else 1.0, right / wanted if wanted else 1.0, oracle.asked, seconds)


def measure(rows: int, seeds: int, error: float, precision: float) -> dict[str, Any]:
    """Return the figures over several seeds at one share of wrong answers."""
    runs = [run(rows, seed, error, precision) for seed in range(seeds)]
    return {
        "misses": sum(one.precision < precision for one in runs) / seeds,
        "precision": statistics.fmean(one.precision for one in runs),
        "least_precision": min(one.precision for one in runs),
        "recall": statistics.fmean(one.recall for one in runs),
        "calls": statistics.fmean(one.calls for one in runs),
        "most_calls_per_row": max(one.calls for one in runs) / rows,
        "seconds": statistics.fmean(one.seconds for one in runs),
    }


def _columns(records: Records) -> tuple[list[str], list[int]]:
    return records.texts, records.things


def _pairs(sizes: Mapping[Any, int]) -> int:
    return sum(size * (size - 1) // 2 for size in sizes.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = options_parser(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=at_least_one, default=5_000, help="records in each table (default 5000)")
    parser.add_argument("--seeds", type=at_least_one, default=20, help="tables (default 20)")
    parser.add_argument("--errors", type=float, nargs="+", default=[0.0, 0.02], help="shares of wrong answers")
    parser.add_argument("--precision", type=float, default=0.95, help="the target (default 0.95)")
    given = parser.parse_args(arguments)
    rows, seeds = (min(given.rows, 400), min(given.seeds, 3)) if given.quick else (given.rows, given.seeds)
    announce("dedup", arguments)
    found = {f"error {error:g}": measure(rows, seeds, error, given.precision) for error in given.errors}
    heads = {name: _shown(name) for name in next(iter(found.values()))}
    print(markdown("wrong answers", heads, found))
    report("dedup", Options(given.json, given.quick, 1), {"rows": rows, "seeds": seeds, "errors": found})


def _shown(name: str) -> Callable[[Any], str]:
    return lambda row: f"{row[name]:,.4g}"


if __name__ == "__main__":
    main()
