"""Run four kinds of AI query over real tables, with an ADBC client, a server process and a real model.

    python -m bench.real_tables [--json] [--quick] [--engine vllm|local|fake]...

Movies and products are joined with their reviews, at most 3,000 joined rows each. The queries are a projection, a
filter beside a plain predicate, several calls in one query, and an average score by group. The figures come from
`system.queries` and `system.ai_calls`. Each engine runs every query once, on the embedded model, with an empty answer
cache. The script fails if the model was asked a repeated prompt twice, or if no prompt token came from the prefix
cache.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from adbc_driver_flightsql import dbapi

from bench.common import machine
from bench.setting import announce, tables, topics
from flightllm.demo.process import running_server

ROWS: Final = 3_000
QUICK_ROWS: Final = 200
ENGINES: Final = ("vllm", "local")
_FIGURES: Final = """
SELECT q.seconds, q.rows, a.rows_asked, q.distinct_prompts, q.calls, q.cache_hits, q.prompt_tokens, q.cached_tokens,
    q.failed_rows
FROM system.queries q
JOIN (SELECT query_id, sum(rows) AS rows_asked FROM system.ai_calls GROUP BY query_id) a ON a.query_id = q.query_id
WHERE q.sql = ? AND q.status = 'done'
"""


def run(cursor: dbapi.Cursor, sql: str) -> dict[str, Any]:
    """Run a query to its end; return its figures from the server's system tables."""
    cursor.execute(sql)
    rows = cursor.fetch_arrow_table().num_rows
    cursor.execute(_FIGURES, (sql,))
    (figures,) = cursor.fetch_arrow_table().to_pylist()
    if figures["rows"] != rows:
        raise RuntimeError(f"system.queries says {figures['rows']} rows, the client got {rows}: {sql}")
    return {**figures, "seconds": round(figures["seconds"], 2)}


def check(name: str, figures: Mapping[str, Any], *, cached: bool) -> None:
    """Check that no prompt was asked twice, and that prefixes were shared.

    Raises:
        RuntimeError: a prompt was asked twice, or no prompt token came from the prefix cache.
    """
    if figures["distinct_prompts"] < figures["rows_asked"] <= figures["calls"]:
        raise RuntimeError(f"{name}: prompts repeat, yet {figures['calls']} calls for {figures['rows_asked']} rows")
    if figures["calls"] > figures["distinct_prompts"]:
        raise RuntimeError(f"{name}: {figures['calls']} calls for {figures['distinct_prompts']} distinct prompts")
    if cached and not figures["cached_tokens"]:
        raise RuntimeError(f"{name}: no prompt token came from the prefix cache")


def measure(engine: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Start a server on `engine`; yield the name and the figures of each query as it ends."""
    with (
        running_server(["--engine", engine], tables(), ready_seconds=300) as server,
        dbapi.connect(server.uri.replace("grpc://", "grpc+tcp://"), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        for topic in topics():
            for shape, sql in topic.queries(f"({topic.rows(count)})").items():
                name = f"{engine}, {topic.name}, {shape}"
                figures = run(cursor, sql)
                check(name, figures, cached=engine != "fake")
                print(f"{name:40} {json.dumps(figures)}", flush=True)
                yield name, figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Run AI queries over real tables through ADBC and a server.")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROWS} rows of each topic, only on the engine local"
    )
    parser.add_argument("--engine", action="append", choices=(*ENGINES, "fake"), help="default: vllm, then local")
    given = parser.parse_args(arguments)
    engines = given.engine or (ENGINES[1:] if given.quick else ENGINES)
    count = QUICK_ROWS if given.quick else ROWS
    announce("real_tables", arguments)
    figures = dict(found for engine in engines for found in measure(engine, count))
    if given.json:
        whole = {"bench": "real_tables", "quick": given.quick, "joined_rows": count, **figures, "machine": machine()}
        print(json.dumps(whole))


if __name__ == "__main__":
    main()
