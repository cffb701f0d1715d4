"""How many rows of an attached table come here for a join with few keys, and how long does it take?

    python -m bench.attached_join [--rows 1000000] [--keys 1000] [--repeats 5] [--no-index] [--quick] [--json]

A real PostgreSQL has `--rows` orders; an index has their key, except with `--no-index`. This server has `--keys` keys.
The same join is measured side by side: here; by hand, as one statement with a list of keys through the same driver; and
here with the optimizer's rules off, so that all rows come back. By hand means with a new connection, and with an open
one. Each figure is a median.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import Options, at_least_one, options_parser, report
from bench.setting import announce
from flightllm.attached.postgres import PostgresSource
from flightllm.attached.source import Rows
from flightllm.config import Config, EngineConfig, LogConfig
from flightllm.log import configure_logging
from flightllm.session.database import Database
from tests.postgres import cluster

_JOIN = "SELECT count(*) AS n, sum(length(o.note)) AS s FROM crm.orders o JOIN keys k ON o.id = k.id"


class _Counted:
    """The rows of one SELECT, which are counted."""

    def __init__(self, rows: Rows, count: Callable[[int], None]) -> None:
        self._rows, self._count = rows, count
        self.cancel, self.close = rows.cancel, rows.close

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows.batches():
            self._count(batch.num_rows)
            yield batch


@contextmanager
def _counting(moved: list[int]) -> Iterator[None]:
    """Count the rows that come back from PostgreSQL in the block."""
    before = PostgresSource.rows

    def rows(source: PostgresSource, text: str) -> Rows:
        return _Counted(before(source, text), moved.append)

    with patch.object(PostgresSource, "rows", rows):
        yield


def _side_by_side(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each way; the ways take turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - begun)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def measure(rows: int, keys: int, repeats: int, *, index: bool = True) -> dict[str, Any]:
    """Run the join in the three ways; return rows that moved, seconds and ratios."""
    configure_logging(LogConfig(level="error"))
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as name, cluster() as server:
        address = f"host={server.folder} user={server.user} dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE orders AS SELECT g AS id, 'order ' || g AS note FROM generate_series(1, {rows}) g"
            )
            if index:
                connection.execute("ALTER TABLE orders ADD PRIMARY KEY (id)")
            connection.execute("VACUUM ANALYZE orders")
        wanted = [1 + at * (rows // keys) for at in range(keys)]
        file = Path(name) / "keys.parquet"
        pq.write_table(pa.table({"id": wanted}), file)
        config = Config(engine=EngineConfig("fake", "demo"), tables={"keys": file}, data_folder=Path(name) / "data")
        with closing(Database.open(config)) as database:
            session = database.session()
            session.update(f"ATTACH '{address}' AS crm (TYPE postgres)")

            def here() -> list[Any]:
                return [batch.to_pylist() for batch in session.execute(_JOIN).batches]

            def over(one: Any) -> list[Any]:
                text = f"SELECT id, note FROM orders WHERE id IN ({', '.join(map(str, wanted))})"
                with one.cursor() as cursor:
                    cursor.execute(text)
                    notes = cursor.fetch_arrow_table().column("note")
                return [[{"n": len(notes), "s": sum(len(note) for note in notes.to_pylist())}]]

            def by_hand() -> list[Any]:
                with closing(adbc_driver_postgresql.dbapi.connect(address)) as one:
                    return over(one)

            moved = list[int]()
            with _counting(moved):
                found = here()
            if found != by_hand():
                raise AssertionError("the join here and the statement by hand differ")
            with closing(adbc_driver_postgresql.dbapi.connect(address)) as one:
                ways = {"here": here, "by hand": by_hand, "by hand, connected": lambda: over(one)}
                seconds = _side_by_side(ways, repeats)
            session.update("SET flightllm.rules = off")
            whole = list[int]()
            with _counting(whole):
                here()
            seconds |= _side_by_side({"all rows": here}, max(1, repeats // 2))
    return {
        "rows_moved": sum(moved),
        "share": sum(moved) / rows,
        "rows_moved_without_rules": sum(whole),
        "seconds": seconds,
        "ratio": seconds["here"] / seconds["by hand"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = options_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=at_least_one, default=1_000_000, help="rows of the table (default 1000000)")
    parser.add_argument("--keys", type=at_least_one, default=1_000, help="keys of this server (default 1000)")
    parser.add_argument("--no-index", action="store_true", help="the source must read its whole table")
    given = parser.parse_args(arguments)
    announce("attached_join", arguments)
    rows = min(given.rows, 50_000) if given.quick else given.rows
    figures = measure(rows, min(given.keys, rows), given.repeats, index=not given.no_index)
    for name, value in figures.items():
        print(f"{name:26} {value}")
    sizes = {"rows": rows, "keys": given.keys, "index": not given.no_index}
    report("attached_join", Options(given.json, given.quick, given.repeats), sizes | figures)


if __name__ == "__main__":
    main()
