"""Does `auto`, which sorts the rows or leaves them, save more time than the choice costs?

    python -m bench.choice TABLE.parquet … [--rows 1000] [--repeats 3] [--engine vllm] [--json]

Runs one AI filter over all columns of each table with the orderings `none`, `rows` and `auto` in turn. All runs use
one engine; each begins with an empty prefix cache and without cached answers. Seconds are medians of whole queries:
reading, ordering and asking. The ratio is `auto` / the better of the other two. Above 1.02 the choice cost more than it
saved.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.common import cpu_seconds, machine, read_to_end
from bench.engines import engine_config, forget_prefixes, keeps_prefixes
from bench.models import SHAPES
from bench.setting import announce, open_database
from flightllm.session.database import Database

ORDERINGS: Final = ("none", "rows", "auto")
_SQL: Final = "SELECT count(*) FROM t WHERE ai_filter('Is this worth a second look?', t.*)"


def run_once(database: Database, ordering: str) -> dict[str, float]:
    """Run the query on an empty prefix cache; return wall and CPU seconds, and the share of cached tokens."""
    if keeps_prefixes(database.engine):
        forget_prefixes(database.engine)
    started, busy = time.perf_counter(), cpu_seconds()
    result = database.session().execute(_SQL, settings={"ordering": ordering, "cache": "off"})
    read_to_end(result.batches)
    row = result.query.row()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": cpu_seconds() - busy,
        "hit_rate": row["cached_tokens"] / max(1, row["prompt_tokens"]),
    }


def measure(path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Return the medians of each ordering on one table, and the ratios."""
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        table = Path(folder) / "t.parquet"
        pq.write_table(pq.read_table(path).slice(0, given.rows), table)
        config = engine_config(given.engine, SHAPES[given.model], given.cache_blocks, prefix_cache=True)
        runs: dict[str, list[dict[str, float]]] = {ordering: [] for ordering in ORDERINGS}
        with open_database(config, {"t": table}) as database:
            run_once(database, "none")  # warms up
            for _ in range(given.repeats):
                for ordering in ORDERINGS:
                    runs[ordering].append(run_once(database, ordering))
    found: dict[str, Any] = {
        ordering: {name: round(statistics.median(r[name] for r in done), 4) for name in done[0]}
        for ordering, done in runs.items()
    }
    for name in ("seconds", "cpu_seconds"):
        better = min(found["none"][name], found["rows"][name])
        found[f"{name}_ratio"] = round(found["auto"][name] / max(better, 1e-9), 3)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Measure the cost and the savings of the choice of an ordering.")
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE.parquet")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "local", "fake"))
    parser.add_argument(
        "--model", default="bench", choices=tuple(SHAPES), help="the model's size in vLLM; 7b needs a GPU"
    )
    parser.add_argument("--rows", type=int, default=1_000, help="rows of each table (default %(default)s)")
    parser.add_argument(
        "--cache-blocks", type=int, default=2_000, help="cache blocks of 32 tokens (default %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    announce("choice", arguments)
    print("| table | ordering | s | CPU s | hit rate | auto / better, s | in CPU s |\n|---|---|---|---|---|---|---|")
    tables = {}
    for path in given.tables:
        tables[path.stem] = found = measure(path, given)
        for ordering in ORDERINGS:
            own = found[ordering]
            ratios = f"{found['seconds_ratio']} | {found['cpu_seconds_ratio']}" if ordering == "auto" else "|"
            line = f"| {path.stem} | {ordering} | {own['seconds']:.2f} | {own['cpu_seconds']:.2f} |"
            print(f"{line} {100 * own['hit_rate']:.1f} % | {ratios} |", flush=True)
    if given.json:
        print(json.dumps({"bench": "choice", "rows": given.rows, "tables": tables, "machine": machine()}))


if __name__ == "__main__":
    main()
