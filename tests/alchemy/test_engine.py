"""Statements of Core: values of every kind, changes, transactions, errors, lost and cancelled connections."""

import datetime as dt
import threading
import uuid
import warnings
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

alchemy: Any = pytest.importorskip("sqlalchemy")
from flightllm.alchemy.dbapi import ChangesKeptWarning, OperationalError  # noqa: E402 -- after the test for its package

text = alchemy.text
AT = dt.datetime(1501, 2, 3, 4, 5, 6, 789)  # noqa: DTZ001 -- TIMESTAMP has no zone
VALUES: dict[str, tuple[Any, Any]] = {
    "text": (alchemy.String(20), "hé'"),
    "whole": (alchemy.BigInteger, 2**40),
    "double": (alchemy.Float, 0.1),
    "exact": (alchemy.Numeric(20, 3), Decimal("12345678901234.125")),
    "yes": (alchemy.Boolean, True),
    "bytes": (alchemy.LargeBinary, b"\x00\xff"),
    "day": (alchemy.Date, AT.date()),
    "hour": (alchemy.Time, AT.time()),
    "at": (alchemy.DateTime, AT),
    "moment": (alchemy.DateTime(timezone=True), AT.replace(tzinfo=dt.UTC)),
    "span": (alchemy.Interval, dt.timedelta(days=3, seconds=4, microseconds=5)),
    "id": (alchemy.Uuid, uuid.UUID(int=7)),
    "json": (alchemy.JSON, {"a": [1, {"b": "ü"}]}),
    "list": (alchemy.ARRAY(alchemy.String), ["a", None]),
    "kind": (alchemy.Enum("a", "b"), "b"),
}


@pytest.fixture(scope="module")
def values(engine: Any) -> Any:
    """Make a table with a column of each kind."""
    columns = [alchemy.Column(name, kind) for name, (kind, _) in VALUES.items()]
    table = alchemy.Table("kinds", alchemy.MetaData(), alchemy.Column("n", alchemy.Integer), *columns)
    table.create(engine)
    return table


def test_values(engine: Any, values: Any) -> None:
    """A value of each kind, and NULL, goes to the server and comes back as it was, alone and among others."""
    row = {name: value for name, (_, value) in VALUES.items()}
    with engine.begin() as connection:
        assert connection.execute(values.insert(), {"n": 1} | row).rowcount == 1
        both = [{"n": 2} | row, {"n": 3} | dict.fromkeys(row)]
        assert connection.execute(values.insert(), both).rowcount == 2
        found = connection.execute(alchemy.select(values).order_by(values.c.n)).mappings().all()
    assert found[0] == {"n": 1} | row
    assert found[1] == {"n": 2} | row
    assert {name: value for name, value in found[2].items() if value is not None} == {"n": 3}


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"json", "list"}))
def test_conditions(engine: Any, values: Any, name: str) -> None:
    """A value of each kind finds its rows, as a parameter and as a literal."""
    column, value = values.c[name], VALUES[name][1]
    with engine.connect() as connection:
        for literal in (False, True):
            if literal and name in ("at", "moment"):
                continue  # the server reads literals of timestamps as nanoseconds, which begin in 1677
            wanted = alchemy.bindparam("wanted", value, column.type, literal_execute=literal)
            found = connection.execute(alchemy.select(values.c.n).where(column == wanted).order_by(values.c.n))
            assert found.scalars().all() == [1, 2]


def test_named_parameters(engine: Any) -> None:
    """`:name` in a text takes numbers, texts, None, dates, bytes and large numbers."""
    given = {"a": 1, "b": "x", "c": None, "d": AT.date(), "e": b"z", "f": 2**70, "g": uuid.UUID(int=1)}
    with engine.connect() as connection:
        row = connection.execute(text("SELECT :a, :b, :c, :d, :e, :f, :g"), given).one()
    assert tuple(row) == (1, "x", None, AT.date(), b"z", Decimal(2**70), str(uuid.UUID(int=1)))


def test_bad_parameters(engine: Any) -> None:
    """A parameter that Arrow lacks is an error that says so."""
    with engine.connect() as connection, pytest.raises(alchemy.exc.DataError, match="cannot be sent"):
        connection.execute(text("SELECT :a"), {"a": object()})


def test_results_of_arrow(engine: Any) -> None:
    """Structs, maps, intervals and nanoseconds become Python's values, inside of others too."""
    sql = """SELECT struct(INTERVAL '1 day' AS i) AS s, map(['a'], [1]) AS m, [INTERVAL '2 days'] AS l,
        TIMESTAMP '2024-01-02 03:04:05.123456' AS x, [TIMESTAMP '2024-01-02'] AS ts"""
    with engine.connect() as connection:
        row = connection.execute(text(sql)).one()
    assert row.s == {"i": dt.timedelta(days=1)}
    assert (row.m, row.l) == ({"a": 1}, [dt.timedelta(days=2)])
    assert row.x == dt.datetime(2024, 1, 2, 3, 4, 5, 123456)  # noqa: DTZ001 -- see above
    assert row.ts == [dt.datetime(2024, 1, 2)]  # noqa: DTZ001 -- see above
    assert type(row.x) is dt.datetime


@pytest.mark.slow
def test_many_rows(engine: Any) -> None:
    """Rows of more than one message of parameters arrive, all of them."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE many (n INT, s TEXT)"))
        rows = [{"n": n, "s": "x" * 100_000} for n in range(60)]
        assert connection.execute(text("INSERT INTO many VALUES (:n, :s)"), rows).rowcount == 60
        assert connection.execute(text("SELECT count(*), sum(n), sum(length(s)) FROM many")).one() == (
            60,
            sum(range(60)),
            6_000_000,
        )


def test_returning(engine: Any) -> None:
    """INSERT, UPDATE and DELETE return rows."""
    table = alchemy.Table("r", alchemy.MetaData(), alchemy.Column("n", alchemy.Integer, primary_key=True))
    with engine.begin() as connection:
        table.create(connection)
        inserted = alchemy.insert(table).returning(table.c.n, sort_by_parameter_order=True)
        assert connection.execute(inserted, [{"n": 2}, {"n": 1}]).scalars().all() == [2, 1]
        assert connection.execute(
            alchemy.update(table).where(table.c.n == 1).values(n=5).returning(table.c.n)
        ).all() == [(5,)]
        assert connection.execute(alchemy.delete(table).where(table.c.n == 2).returning(table.c.n)).all() == [(2,)]


def test_upsert(engine: Any) -> None:
    """PostgreSQL's ON CONFLICT of SQLAlchemy works."""
    from sqlalchemy.dialects.postgresql import insert

    columns = (alchemy.Column("n", alchemy.Integer, primary_key=True), alchemy.Column("s", alchemy.Text))
    table = alchemy.Table("upserted", alchemy.MetaData(), *columns)
    with engine.begin() as connection:
        table.create(connection)
        for content in ("a", "b"):
            statement = insert(table).values(n=1, s=content)
            connection.execute(statement.on_conflict_do_update(index_elements=["n"], set_={"s": statement.excluded.s}))
        assert connection.execute(alchemy.select(table)).all() == [(1, "b")]


def _fails(engine: Any, insert: Any) -> None:
    with suppress(ZeroDivisionError), engine.begin() as connection:
        connection.execute(insert)
        raise ZeroDivisionError


def test_transactions(engine: Any, url: str) -> None:
    """A rollback after changes warns that they stay; one of reads, and one under AUTOCOMMIT, are silent."""
    insert, count = text("INSERT INTO steps VALUES (1)"), text("SELECT count(*) FROM steps")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE steps (n INT)"))
    with engine.connect() as connection:
        connection.execute(insert)
        connection.execute(insert)
        with pytest.warns(ChangesKeptWarning, match="ROLLBACK undid nothing, 2 changes stay"):
            connection.rollback()
        assert connection.execute(count).scalar() == 2
    with pytest.warns(ChangesKeptWarning, match="1 change stays"):
        _fails(engine, insert)
    committing = alchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with engine.connect() as connection:
            assert connection.execute(count).scalar() == 3
            connection.rollback()
            connection.execute(insert)
            connection.commit()
        with committing.connect() as connection:
            connection.execute(insert)
            assert connection.get_isolation_level() == "AUTOCOMMIT"
        committing.dispose()
    with pytest.raises(alchemy.exc.ArgumentError, match="READ COMMITTED"), engine.connect() as connection:
        connection.execution_options(isolation_level="SERIALIZABLE")


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT * FROM nope", "ProgrammingError", "table 'flightllm.public.nope' not found"),
        ("SELEC 1", "ProgrammingError", "no statement starts with 'SELEC'"),
        ("SELECT 1/0", "DatabaseError", "Divide by zero"),
        ("CREATE INDEX i ON t (a)", "NotSupportedError", "CREATE VECTOR INDEX"),
    ],
)
def test_errors(engine: Any, sql: str, kind: str, message: str) -> None:
    """An error has the DB-API's class and the server's plain message."""
    with engine.connect() as connection, pytest.raises(getattr(alchemy.exc, kind), match=message) as raised:
        connection.execute(text(sql)).all()
    assert "Detail" not in str(raised.value.orig)
    assert "FlightSQL" not in str(raised.value.orig)


def test_facts(engine: Any) -> None:
    """Tools find the server's version and the schema."""
    with engine.connect():
        assert engine.dialect.server_version_info >= (0, 2, 0)
        assert engine.dialect.default_schema_name == "public"
        assert engine.dialect.name == "flightllm"


def test_schema_of_the_address(url: str, engine: Any) -> None:
    """The path of the address is the schema of names without one."""
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA side"))
        connection.execute(text("CREATE TABLE side.only_here (n INT)"))
    other = alchemy.create_engine(url + "side")
    assert alchemy.inspect(other).get_table_names() == ["only_here"]
    with other.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM only_here")).scalar() == 0
    other.dispose()


def test_rows_come_while_they_are_made(engine: Any) -> None:
    """A result that is not read to its end ends with its block."""
    with engine.connect() as connection:
        rows = connection.execution_options(yield_per=10).execute(
            text("SELECT value FROM generate_series(1, 10000000)")
        )
        assert next(iter(rows.partitions(10))) == [(n,) for n in range(1, 11)]
        rows.close()
        assert connection.execute(text("SELECT 1")).scalar() == 1


def _repeat(cursor: Any, sql: str) -> None:
    for _ in range(1000):
        cursor.execute(sql)
        cursor.fetchall()


def test_cancel(engine: Any) -> None:
    """A statement that takes long ends when another thread cancels it."""
    connection = engine.raw_connection()
    cursor = connection.cursor()
    timer = threading.Timer(0.3, cursor.cancel)
    timer.start()
    joined = "generate_series(1, 3000000) a JOIN generate_series(1, 50) b ON a.value % 7 = b.value % 7"
    with pytest.raises(OperationalError, match=r"(?i)cancel"):
        _repeat(cursor, f"SELECT count(*) FROM {joined}")
    timer.cancel()
    cursor.close()
    connection.close()


def test_restart(tmp_path: Path) -> None:
    """With pre_ping a pool notices that a server stopped, and connects to the next one."""
    config = Config(engine=EngineConfig(kind="fake"), data_folder=tmp_path)
    database = Database.open(config)
    first = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    port = first.port
    engine = alchemy.create_engine(f"flightllm://127.0.0.1:{port}/", pool_pre_ping=True)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    first.drain(0)
    with pytest.raises(alchemy.exc.OperationalError), engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    second = FlightSqlServer(database, ServerConfig(f"127.0.0.1:{port}"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 2")).scalar() == 2
    engine.dispose()
    second.drain(0)
    database.close()


def test_wrong_password(database: Database) -> None:
    """A wrong password is an OperationalError with the server's own words."""
    database.access.store.add_user(User("ann", "user"))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    engine = alchemy.create_engine(f"flightllm://ann:wrong@127.0.0.1:{server.port}/")
    try:
        with pytest.raises(alchemy.exc.OperationalError, match="password"), engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    finally:
        engine.dispose()
        server.drain(0)
        database.access.store.drop_user("ann")


def test_views(engine: Any) -> None:
    """A view with an AI call can be in a schema, its query is shown, and a temporary view is listed."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE SCHEMA seen_in"))
        connection.execute(text("CREATE VIEW seen_in.said AS SELECT ai_gen('Say a') AS a"))
        connection.execute(text("CREATE TEMPORARY VIEW brief AS SELECT 1 AS n"))
        inspector = alchemy.inspect(connection)
        assert "ai_gen" in inspector.get_view_definition("said", "seen_in")
        assert inspector.get_temp_view_names() == ["brief"]
        assert inspector.has_table("brief")
        assert "brief" not in inspector.get_temp_table_names()
