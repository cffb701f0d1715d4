"""Statements that would compute for minutes, by every route and in every clause: others are served meanwhile.

The order shows it, and no clock does: a victim's answers, and the error after a cancel, come before the values, which
no test could wait for.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from datafusion import SessionContext
from datafusion.substrait import Producer

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.servers import ask, await_true, serving

KERNEL = "levenshtein(repeat('a', 400000), repeat('b', 400000))"
"""Takes minutes."""
QUERIES = {
    "select": f"SELECT {KERNEL} AS x",
    "where": f"SELECT n FROM t WHERE n > {KERNEL}",
    "case": f"SELECT CASE WHEN n > 5 THEN {KERNEL} ELSE 0 END AS x FROM t",
    "group by": f"SELECT count(*) FROM t GROUP BY n + {KERNEL}",
    "having": f"SELECT n, count(*) FROM t GROUP BY n HAVING count(*) > {KERNEL}",
    "order by": f"SELECT n FROM t ORDER BY n + {KERNEL}",
    "offset": f"SELECT n FROM t OFFSET {KERNEL}",
    "join": f"SELECT count(*) FROM t a JOIN t b ON a.n = b.n + {KERNEL}",
    "in list": f"SELECT n FROM t WHERE n IN (1, 2, {KERNEL})",
    "exists": f"SELECT n FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE t.n = b.n + {KERNEL})",
    "scalar subquery": f"SELECT n + (SELECT {KERNEL}) FROM t",
    "window": f"SELECT sum(n) OVER (ORDER BY n + {KERNEL}) FROM t",
    "filter": f"SELECT sum(n) FILTER (WHERE n > {KERNEL}) FROM t",
    "values": f"SELECT column1 FROM (VALUES ({KERNEL}), (2))",
    "union": f"SELECT 1 UNION ALL SELECT {KERNEL}",
    "with": f"WITH q AS (SELECT {KERNEL} AS x) SELECT x + 1 FROM q",
    "list": f"SELECT make_array(1, {KERNEL}) AS x",
    "map": f"SELECT map(['a'], [{KERNEL}]) AS x",
    "cast": f"SELECT CAST({KERNEL} AS VARCHAR) AS x",
    "view": "SELECT x FROM slow",
    "cross join": "SELECT sum(a.n * b.n) FROM big a, big b",
    "join without an equation": "SELECT count(*) FROM big a JOIN big b ON a.n + b.n < 0",
    "least of a cross join": "SELECT a.n FROM big a, big b ORDER BY a.n * b.n LIMIT 5",
    "explain": f"EXPLAIN SELECT {KERNEL} AS x",
    "explain analyze": f"EXPLAIN ANALYZE SELECT {KERNEL} AS x",
    "beside an AI call": f"SELECT ai_gen('Of {{n}}?', n), {KERNEL} AS x FROM t WHERE n < 3",
    "before an AI call": f"SELECT ai_gen('Of {{n}}?', n) FROM t WHERE n < {KERNEL}",
}
CHANGES = {
    "create table as": f"CREATE TABLE made AS SELECT {KERNEL} AS x",
    "insert select": f"INSERT INTO t SELECT {KERNEL} AS n",
    "insert values": f"INSERT INTO t VALUES ({KERNEL})",
}
Run = Callable[[flight_sql.Cursor], object]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightSqlServer]:
    """Serve a thousand numbers, many more, and a view that is slow."""
    with serving(tmp_path_factory.mktemp("served"), LimitsConfig(isolated_statements=1)) as server:
        session = _database(server).session()
        session.update(f"CREATE VIEW slow AS SELECT {KERNEL} AS x")
        session.update("CREATE TABLE big AS SELECT value AS n FROM generate_series(1, 200000)")
        yield server


def _database(server: FlightSqlServer) -> Database:
    return cast("Database", server._core.database)


def check_others_are_served(server: FlightSqlServer, run: Run, connect: dict[str, str] | None = None) -> None:
    """Run a statement until it computes, have a victim served, cancel the statement, and check that nothing is left."""
    isolation, ended = _database(server)._services.isolation, threading.Event()
    failed = list[Exception]()
    with flight_sql.connect(server.uri, connect, autocommit=True) as connection, connection.cursor() as cursor:

        def attack() -> None:
            try:
                run(cursor)
            except (Error, OSError) as error:  # a stream that is read by pyarrow raises the latter
                failed.append(error)
            ended.set()

        thread = threading.Thread(target=attack)
        thread.start()
        await_true(lambda: isolation.running == 1 or ended.is_set())
        with flight_sql.connect(server.uri, connect, autocommit=True) as other, other.cursor() as victim:
            assert [ask(victim, "SELECT 1") for _ in range(3)] == [[(1,)]] * 3
        assert not ended.is_set(), failed
        cursor.adbc_cancel()
        thread.join(60)
    assert ended.is_set()
    assert "ancel" in str(failed[0])
    await_true(lambda: isolation.running == 0 and server._core.slots.running == 0)


def _asks(sql: str, parameters: tuple[object, ...] = ()) -> Run:
    def run(cursor: flight_sql.Cursor) -> object:
        cursor.execute(sql, parameters) if parameters else cursor.execute(sql)
        return cursor.fetchall()

    return run


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_queries(server: FlightSqlServer, sql: str) -> None:
    """A query harms nobody, whatever clause its expression is in."""
    check_others_are_served(server, _asks(sql))


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
def test_changes(server: FlightSqlServer, sql: str) -> None:
    """A change harms nobody, and changes nothing once it is cancelled."""
    check_others_are_served(server, lambda cursor: cursor.execute(sql))
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        assert ask(cursor, "SELECT count(*) FROM t") == [(1000,)]
        assert ask(cursor, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'made'") == [(0,)]


def test_bound_values(server: FlightSqlServer) -> None:
    """A prepared statement harms nobody by the values that are bound to it."""
    check_others_are_served(server, _asks("SELECT levenshtein($1, $2) AS x", ("a" * 400_000, "b" * 400_000)))


def test_substrait(server: FlightSqlServer) -> None:
    """A Substrait plan harms nobody."""
    context = SessionContext()
    context.sql("CREATE TABLE t (n BIGINT)").collect()
    plan = Producer.to_substrait_plan(context.sql(f"SELECT {KERNEL} AS x, n FROM t").logical_plan(), context).encode()

    def run(cursor: flight_sql.Cursor) -> Any:
        cursor.adbc_statement.set_substrait_plan(plan)
        handle, _ = cursor.adbc_statement.execute_query()
        return pa.RecordBatchReader._import_from_c(handle.address).read_all()

    check_others_are_served(server, run)


@pytest.mark.parametrize("policy", ["ROW FILTER ON t TO bob AS n <", "COLUMN MASK ON t(n) TO bob AS"])
def test_policies(tmp_path: Path, policy: str) -> None:
    """A row filter or a mask harms nobody but whom it is for."""
    limits = LimitsConfig(isolated_statements=1)
    config = Config(engine=EngineConfig(kind="fake"), limits=limits, data_folder=tmp_path)
    with closing(Database.open(config)) as database:
        session = database.session()
        session.update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
        database.access.store.add_user(User("bob", "user"))
        session.update("GRANT SELECT ON TABLE t TO bob")
        session.update(f"CREATE {policy} {KERNEL}")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), limits, login=database.access.login)
        token = {"adbc.flight.sql.authorization_header": f"Bearer {database.access.store.add_token('bob')}"}
        try:
            check_others_are_served(server, _asks("SELECT max(n) FROM t"), token)
        finally:
            server.drain(0)
