"""Aggregates over a model through the ADBC Flight SQL driver."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest

from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.servers import await_true

TREE = "SELECT g, ai_agg(t, 'What?') AS a FROM reviews GROUP BY g ORDER BY g"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database whose engine has a small context and four places."""
    folder: Path = tmp_path_factory.mktemp("aggregates")
    engine = EngineConfig("fake", "demo", 4, {"context_tokens": 1_024, "latency_ms": 20.0})
    database = Database.open(Config(engine=engine, data_folder=folder))
    yield database
    database.close()


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server that asks for no token."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_agg"])
    yield server
    server.drain(0)


@pytest.fixture
def cursor(server: FlightSqlServer) -> Iterator[Any]:
    """Connect, and upload three groups: of many texts, of one, and of NULL."""
    texts = [f"Review {number}: {'good ' * 30}" for number in range(150)]
    groups = ["large"] * 150 + ["small", "null"]
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("reviews", pa.table({"g": groups, "t": [*texts, "One review", None]}), mode="replace")
        yield cursor


def test_groups(cursor: Any) -> None:
    """Rows, EXPLAIN and the record of the calls reach the client."""
    cursor.execute(f"EXPLAIN (FORMAT json) {TREE}")
    plan = json.loads(cursor.fetchone()[-1])
    cursor.execute(TREE)
    found = dict(cursor.fetchall())
    assert {name: answer is None for name, answer in found.items()} == {"large": False, "null": True, "small": False}
    cursor.execute("SELECT calls, failed_rows FROM system.ai_calls WHERE function = 'ai_agg' AND calls > 0")
    assert cursor.fetchall() == [(plan["total"]["predicted"]["calls"], 0)]


def test_the_type_of_citations(cursor: Any) -> None:
    """A result with citations is a struct of a text and a list."""
    cursor.execute("SELECT ai_agg(t, 'What?', citations => g) AS a FROM reviews WHERE g = 'null'")
    table = cursor.fetch_arrow_table()
    assert table.schema.field("a").type == pa.struct([("value", pa.string()), ("citations", pa.list_(pa.string()))])
    assert table.to_pylist() == [{"a": None}]


def test_cancel(cursor: Any, database: Database) -> None:
    """A client can stop a tree of calls between its first and its last one."""
    sql = TREE.replace("What?", "Which?")

    def cancel() -> None:
        await_true(lambda: any(record.row()["calls"] for record in database.queries.running()))
        cursor.adbc_cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(adbc.OperationalError, match=r"(?i)cancel"):
        cursor.execute(sql).fetchall()
    thread.join()
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == (1,)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT ai_agg(t, 'What?') OVER () FROM reviews", "OVER cannot follow it"),
        ("SELECT ai_agg(t) FROM reviews", "the instruction must be a text literal"),
        ("SELECT ai_agg(t, 'What?', wrods => 3) FROM reviews", "the option 'wrods' is not known here"),
        ("SELECT ai_summarize_agg(t, max_words => 0) FROM reviews", "max_words must be at least 1"),
        ("SELECT ai_agg(t, 'What?', citations => 'yes') FROM reviews", "citations must be true or false"),
        ("SELECT ai_agg(ai_agg(t, 'a'), 'b') FROM reviews", "a subquery"),
    ],
)
def test_errors(cursor: Any, sql: str, told: str) -> None:
    """A wrong call is an error in words."""
    with pytest.raises(adbc.Error) as error:
        cursor.execute(sql).fetchall()
    assert told in str(error.value)
