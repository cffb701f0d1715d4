"""Run the same AI queries with the optimizer on and off: calls, tokens, seconds, and their ratios.

    python -m bench.optimizer [--json] [--quick]

Movies and products are joined with their reviews once. Every run stores the same joined table, in the order of the join
or shuffled. Off means one call per row through plain batch functions. Each run has a new engine with an empty prefix
cache, and no answer cache. `fake` simulates a prefix cache of 16,384 tokens and takes no time. `local` runs the
embedded model on fewer rows, once. Ratios are off / on: above 1, the optimizer wins.
"""

import json
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.common import machine, parse_options, read_to_end
from bench.setting import Topic, announce, open_database, topics
from flightllm.config import EngineConfig

ROWS: Final = {"fake": 2_000, "local": 200}
QUICK_ROWS: Final = {"fake": 500}
ENGINES: Final = {
    "fake": EngineConfig(kind="fake", options={"cache_blocks": 1_024}),
    "local": EngineConfig(kind="local"),
}


def read(topic: Topic, count: int) -> pa.Table:
    """Return joined rows of a topic."""
    with open_database(EngineConfig(kind="fake")) as database:
        result = database.session().execute(topic.rows(count))
        return pa.Table.from_batches(list(result.batches), result.schema)


def shuffled(table: pa.Table) -> pa.Table:
    """Return the rows in a random order that is the same in every run."""
    return table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows))).combine_chunks()


def run(engine: EngineConfig, table: pa.Table, sql: str, optimizer: str) -> dict[str, float]:
    """Run a query over `table` as `joined` to its end on a new engine; return its figures."""
    with open_database(engine) as database:
        session = database.session()
        session.ingest("joined", table.to_batches(), table.schema, "create")
        result = session.execute(sql, settings={"optimizer": optimizer, "cache": "off"})
        read_to_end(result.batches)
        row = result.query.row()
    computed = row["prompt_tokens"] - row["cached_tokens"]
    counted = {name: row[name] for name in ("calls", "prompt_tokens", "cached_tokens")}
    return {**counted, "computed_tokens": computed, "seconds": round(row["seconds"], 3)}


def compare(engine: EngineConfig, table: pa.Table, sql: str, repeats: int) -> dict[str, Any]:
    """Run a query with the optimizer on and off in turn; return the medians of each, and their ratios."""
    ways: dict[str, list[dict[str, float]]] = {"on": [], "off": []}
    for _ in range(repeats):
        for optimizer, runs in ways.items():
            runs.append(run(engine, table, sql, optimizer))
    on, off = ({name: median(run[name] for run in runs) for name in runs[0]} for runs in ways.values())
    ratios = {name: round(off[name] / on[name], 2) for name in on if on[name]}
    return {"on": on, "off": off, "off / on": ratios}


def measure(engine: str, count: int, repeats: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the figures of each query on `engine` over `count` joined rows of each topic."""
    for topic in topics():
        table = read(topic, count)
        for order, rows in (("joined", table), ("shuffled", shuffled(table))):
            for shape, sql in topic.queries("joined").items():
                yield f"{engine}, {topic.name} {order}, {shape}", compare(ENGINES[engine], rows, sql, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    options = parse_options("AI queries with the optimizer on and off.", arguments)
    announce("optimizer", arguments)
    figures: dict[str, Any] = {}
    for engine, rows in (QUICK_ROWS if options.quick else ROWS).items():
        figures[f"{engine}, joined rows"] = rows
        for name, found in measure(engine, rows, 1 if engine == "local" else options.repeats):
            print(f"{name:40} {json.dumps(found)}", flush=True)
            figures[name] = found
    if options.json:
        print(json.dumps({"bench": "optimizer", "quick": options.quick, **figures, "machine": machine()}))


if __name__ == "__main__":
    main()
