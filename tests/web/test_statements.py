"""Statements of the page: rows, bounds, settings, and that leaving stops them."""

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.common.cells import columns_of, rows_of
from flightllm.common.fair_queue import Requester
from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.servers import await_true, time_over
from tests.web.support import PAGE, Visitor


def test_rows(visit: Callable[[str], Visitor]) -> None:
    """Values come as exact text, NULL as null, lists and structs as JSON, and columns of one name stay apart."""
    sql = (
        "SELECT 9007199254740993 AS big, NULL AS none, [1, NULL] AS list, named_struct('a', '<b>', 'c', 1.5) AS s,"
        " X'00ff' AS bytes, to_timestamp_nanos('2024-01-02T03:04:05.123456789') AS at, DATE '2024-01-02' AS big2,"
        " true AS yes, INTERVAL '1 day' AS span, 'a' AS x, 'b' AS \"X\""
    )
    columns, rows, end = visit("ann").run(sql)
    assert [column["name"] for column in columns["columns"]][:2] == ["big", "none"]
    assert [column["number"] for column in columns["columns"]][:2] == [True, False]
    (row,) = rows["rows"]
    assert row[:7] == [
        *("9007199254740993", None, "[1, null]", '{"a": "<b>", "c": 1.5}', "00ff"),
        *("2024-01-02 03:04:05.123456789Z", "2024-01-02"),
    ]
    assert row[7] == "true"
    assert row[9:] == ["a", "b"]
    assert (end["rows"], end["more"]) == (1, False)


def test_every_type_has_a_text() -> None:
    """Types that Arrow cannot write as text, and nanoseconds inside others, come out all the same."""
    values = [
        pa.array([1, None], pa.duration("ns")),
        pa.array([1, None], pa.time64("ns")),
        pa.array([[1], None], pa.list_(pa.timestamp("ns"))),
        pa.array([float("nan"), None]),
        pa.array([[float("inf")], None]),
        pa.array([b"\xff", None], pa.binary_view()),
        pa.array(["x", None]).dictionary_encode(),
        pa.nulls(2),
    ]
    table = pa.table(values, names=[str(i) for i in range(len(values))])
    first, second = rows_of(table)
    assert second == [None] * len(values)
    assert first[3:] == ["nan", "[null]", "ff", "x", None]
    assert columns_of(table.schema)[0]["type"] == "duration[ns]"


@pytest.mark.parametrize(("most", "more"), [(1999, True), (2000, False), (10, True)])
def test_a_bound_on_rows(visit: Callable[[str], Visitor], most: int, more: bool) -> None:
    """As many rows are sent as were asked for, and it is said whether there are more."""
    events = visit("ann").run("SELECT a FROM open_t", rows=most)
    rows = [row for event in events if event["event"] == "rows" for row in event["rows"]]
    end = events[-1]
    assert (len(rows), end["event"], end["rows"], end["more"], end["summary"]) == (most, "end", most, more, "")


@pytest.mark.parametrize("rows", [0, 10_001, "5", True, 1.5])
def test_a_bad_bound(visit: Callable[[str], Visitor], rows: object) -> None:
    """The number of rows is checked."""
    status, answer = visit("ann").post("/api/statements", {"sql": "SELECT 1", "rows": rows})
    assert (status, answer["error"]["message"]) == (400, "'rows' must be a whole number from 1 to 10,000")


def test_no_rows(visit: Callable[[str], Visitor]) -> None:
    """An empty result has columns."""
    events = visit("ann").run("SELECT a FROM open_t WHERE a < 0")
    assert [event["event"] for event in events if event["event"] != "rows"] == ["columns", "end"]


def test_settings_are_the_logins(visit: Callable[[str], Visitor]) -> None:
    """SET holds for the following statements of this login, and for no other one."""
    first, second = visit("ann"), visit("ann")
    assert first.run("SET flightllm.cache = off")[-1]["event"] == "affected"
    assert first.rows("SHOW flightllm.cache") != second.rows("SHOW flightllm.cache")


def test_changes(visit: Callable[[str], Visitor]) -> None:
    """A change tells how many rows it affected."""
    root = visit("root")
    assert root.run("CREATE TABLE mine AS SELECT value AS v FROM generate_series(1, 7)")[-1]["rows"] == 7
    end = root.run("DELETE FROM mine WHERE v > 5")[-1]
    assert (end["event"], end["rows"], end["summary"]) == ("affected", 2, "")
    assert root.run("DROP TABLE mine")[-1]["event"] == "affected"


@pytest.mark.parametrize(
    ("sql", "state"),
    [("SELEC 1", "42601"), ("", "42000"), ("SELECT nope FROM open_t", "42703"), ("SELECT 1; SELECT 2", "42000")],
)
def test_errors(visit: Callable[[str], Visitor], sql: str, state: str) -> None:
    """What is wrong with a statement is told with its SQLSTATE."""
    event = visit("ann").run(sql)[-1]
    assert (event["event"], event["sqlstate"]) == ("error", state)
    assert "Traceback" not in event["message"]


def test_a_failure_while_running(visit: Callable[[str], Visitor]) -> None:
    """An error that comes with the rows is told too, with the query's id."""
    event = visit("ann").run("SELECT 1 / (a - 1) FROM open_t")[-1]
    assert (event["event"], event["sqlstate"], bool(event["query_id"])) == ("error", "22012", True)


def test_statements_are_recorded(visit: Callable[[str], Visitor], server: FlightSqlServer) -> None:
    """A statement of the page took a place, and is in `system.queries` with user, session and rows."""
    ann = visit("ann")
    before = server.core.slots.waits()[0]
    query_id = ann.run("SELECT a FROM open_t LIMIT 3")[0]["query_id"]
    assert server.core.slots.waits()[0] == before + 2  # to plan, and to run
    detail = ann.get(f"/api/queries/{query_id}")[1]
    assert (detail["user"], detail["rows"], detail["status"]) == ("ann", 3, "done")
    assert detail["session_id"]


def test_the_cost_of_a_statement(visit: Callable[[str], Visitor]) -> None:
    """The end of a query and of a change, also of one that fails, tells rows, calls, tokens and seconds."""
    root = visit("root")
    asked = r"3 rows, 3 calls, [\d,]+ tokens, \d+\.\d s"
    calls = "ai_gen('What costs {a}?', a) AS x FROM open_t WHERE a <= 3"
    assert re.fullmatch(asked, root.run(f"SELECT {calls}")[-1]["summary"])
    end = root.run(f"CREATE TABLE costly AS SELECT {calls}")[-1]
    assert re.fullmatch(asked.replace("calls", r"calls \(0 asked, 3 from the cache\)"), end["summary"])
    assert root.get(f"/api/queries/{end['query_id']}")[1]["kind"] == "create_table_as"
    root.run("DROP TABLE costly")
    end = root.run("SELECT 1 / (a - a), ai_gen('Price of {a}?', a) FROM open_t WHERE a <= 3")[-1]
    assert end["event"] == "error"
    assert "summary" in end


def test_leaving_stops_a_query(visit: Callable[[str], Visitor], database: Database, server: FlightSqlServer) -> None:
    """A browser whose tab is closed leaves nothing running, neither a query nor a change."""
    visitor = visit("root")
    host, _, port = visitor.host.partition(":")
    select = "SELECT ai_gen('Of {a} left?', a) AS x FROM open_t"
    for sql in (select, f"CREATE TABLE left_t AS {select}"):
        body = json.dumps({"sql": sql})
        head = (
            f"POST /api/statements HTTP/1.1\r\nhost: {visitor.host}\r\norigin: http://{visitor.host}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\ncookie: {visitor.cookie}\r\n\r\n"
        )
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall((head + body).encode())
            await_true(lambda: any(record.row()["calls"] for record in database.queries.running()))
        await_true(lambda: not database.queries.running() and not server.core.slots.running)
        assert database.queries.snapshot("queries").to_pylist()[-1]["status"] == "cancelled"
    assert "left_t" not in [info.name.name for info in database.catalog.tables()]


@pytest.mark.slow
def test_limits_hold(tmp_path: Path) -> None:
    """Places, time and result bytes are bounded as over Flight, and refusals are counted."""
    limits = LimitsConfig(concurrent_queries=1, result_bytes=1_000)
    engine = EngineConfig("fake", max_in_flight=1, options={"latency_ms": 500})
    database = Database.open(Config(engine=engine, limits=limits, data_folder=tmp_path))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), limits, login=database.access.login)
    with HttpServer(PAGE, database, server) as http_server:
        visitor = Visitor(http_server.uri or "")
        visitor.post("/api/sign-in")
        assert "[limits] result_bytes" in visitor.error("SELECT value FROM generate_series(1, 100000)")
        slow = "SELECT ai_gen('Of {value}?', value) FROM generate_series(1, 20)"
        with time_over(server, 1.0, lambda: bool(database.engine.inner.sent)):  # type: ignore[attr-defined]
            assert "[limits] statement_seconds" in visitor.error(slow)
        await_true(lambda: not server.core.slots.running)
        place = server.core.slots.take(Requester("ann", ""), lambda: False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server.core.slots, "_wait_seconds", 0.3)
            assert "[limits] concurrent_queries" in visitor.error("SELECT 1")
        place.release()
        assert visitor.rows("SELECT 1") == [["1"]]
        refused = visitor.get("/api/load")[1]["refusals"]
        assert refused == {"result_bytes": 1, "statement_seconds": 1, "concurrent_queries": 1}
        server.core.draining.set()
        assert "shutting down" in visitor.error("SELECT 1")
    server.drain(0)
    database.close()


@pytest.mark.parametrize("sql", ["\ud800", "SELECT '\udfff'"])
def test_text_that_unicode_does_not_allow(visit: Callable[[str], Visitor], sql: str) -> None:
    """Half of a surrogate pair in a statement is the sender's error, and is told where it is."""
    status, answer = visit("ann").post("/api/statements", {"sql": sql})
    assert status == 400
    assert "'sql' has half of a surrogate pair" in answer["error"]["message"]
