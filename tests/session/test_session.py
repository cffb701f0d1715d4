"""Sessions: describe, execute, update, settings, uploads, engines that die, and several clients at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from flightllm.config import RecoveryConfig
from flightllm.dialect.output_names import output_names
from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
    UnsupportedError,
)
from flightllm.execution.planning import plan
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, canonical, small_database

SLOW = {"latency_ms": 20}
NUMBERS = "CREATE OR REPLACE TABLE numbers AS SELECT value AS n FROM generate_series(1, 2000)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


def row_of(session: Session, query_id: str) -> dict[str, Any]:
    """Return a query's row of `system.queries`."""
    (row,) = ask(session, f"SELECT * FROM system.queries WHERE query_id = '{query_id}'").rows
    return row


def test_describe(session: Session) -> None:
    """Describing tells columns, parameters and whether it is an update, and is what running then gives."""
    sql = "SELECT id, ai_score('x', note) AS s, ai_extract(note, ['a']) AS e FROM people WHERE id = ?"
    described = session.describe(sql)
    assert not described.is_update
    assert described.schema.names == ["id", "s", "e"]
    assert described.schema.field("s").type == pa.float64()
    assert len(described.parameters) == 1
    one = pa.RecordBatch.from_pydict({"p": [1]})
    assert ask(session, sql, one).table.schema == described.schema
    assert session.describe("CREATE TABLE t AS SELECT 1 AS a").is_update
    assert session.describe("SET flightllm.cache = 'off'").is_update
    assert session.is_update("INSERT INTO people VALUES (?)")
    assert not session.is_update(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT nope FROM people", "SELEC 1", "SELECT 1; SELECT 2", "", "SELECT ai_gen('x', nope) FROM people"]
)
def test_describe_wrong(session: Session, sql: str) -> None:
    """What cannot be planned is an error of SQL."""
    with pytest.raises(SqlError):
        session.describe(sql)


WRONG = [
    (lambda session: ask(session, "SELECT nope FROM people"), "SELECT nope FROM people", "nope"),
    (lambda session: session.describe("SELECT * FROM absent"), "SELECT * FROM absent", "absent"),
    (lambda session: session.is_update("SELEC 1"), "SELEC 1", "SELEC"),
    (lambda session: session.execute_plan(b"no plan"), "Substrait plan of 7 bytes", "Substrait"),
]


@pytest.mark.slow
def test_too_many_calls(session: Session) -> None:
    """A statement whose operators are too many for Python's stack has an error that says what to do."""
    calls = ", ".join(f"ai_gen('{n}', note)" for n in range(1_000))
    with pytest.raises(LimitExceededError, match="too many AI calls or other steps: split it into several statements"):
        ask(session, f"SELECT {calls} FROM people")
    assert ask(session, "SELECT ai_gen('x', note) FROM people").table.num_rows == 9


@pytest.mark.parametrize(("ask_wrongly", "sql", "message"), WRONG)
def test_what_cannot_be_planned_is_seen(
    database: Database, session: Session, ask_wrongly: Callable[[Session], object], sql: str, message: str
) -> None:
    """One failed query, with its error, is in `system.queries` and in the sums of what ended."""
    before = database.queries.totals().statements["query", "failed"]
    with pytest.raises(FlightLLMError):
        ask_wrongly(session)
    seen = ask(session, "SELECT sql, error, \"user\" FROM system.queries WHERE status = 'failed'").rows
    assert [(row["sql"], row["user"]) for row in seen] == [(sql, session.principal.name)]
    assert message in seen[0]["error"]
    assert database.queries.totals().statements["query", "failed"] == before + 1


def test_lazy(database: Database, session: Session) -> None:
    """Nothing is asked before the first batch is pulled."""
    result = session.execute("SELECT ai_gen('lazy', note) FROM people")
    assert database.engine.inner.sent == 0  # type: ignore[attr-defined]
    assert result.query.row()["status"] == "planned"
    assert sum(batch.num_rows for batch in result.batches) == 9
    assert result.query.row()["status"] == "done"
    assert database.engine.inner.sent == 4  # type: ignore[attr-defined]


def test_update_is_no_query(session: Session) -> None:
    """An update sent as a query is refused, and the other way round."""
    with pytest.raises(UnsupportedError, match="send it as an update"):
        session.execute("CREATE TABLE t AS SELECT 1 AS a")


def test_tables_of_answers(session: Session) -> None:
    """CREATE TABLE AS and INSERT store answers; later queries over them ask nothing."""
    assert session.update("CREATE TABLE moods AS SELECT id, ai_sentiment(note) AS mood FROM people") in (-1, 9)
    ran = ask(session, "SELECT mood, count(*) FROM moods GROUP BY mood")
    assert ran.calls == 0
    assert session.update("INSERT INTO moods SELECT 100, ai_sentiment('fine')") == 1
    assert ask(session, "SELECT count(*) AS n FROM moods").rows == [{"n": 10}]
    assert session.update("DROP TABLE moods") in (-1, 0)
    with pytest.raises(SqlError):
        session.execute("SELECT * FROM moods")


def test_views(session: Session) -> None:
    """A view with calls asks when it is read, and only for what is read."""
    session.update("CREATE VIEW v AS SELECT id, ai_sentiment(note) AS mood, ai_gen('x', name) AS g FROM people")
    assert session.describe("SELECT * FROM v").schema.names == ["id", "mood", "g"]
    on, off = ask_both(session, "SELECT mood FROM v WHERE id = 1")
    assert on.calls == 1 <= off.calls
    session.update("DROP VIEW v")
    with pytest.raises(SqlError):
        session.describe("SELECT * FROM v")


def test_update_for_each_row(session: Session) -> None:
    """An update runs once for each row of parameters."""
    session.update("CREATE TABLE t AS SELECT 0 AS a, 'x' AS b WHERE false")
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, "it's"]})
    assert session.update("INSERT INTO t VALUES (?, ?)", rows) == 3
    assert ask(session, "SELECT b FROM t ORDER BY a").rows == [{"b": "x"}, {"b": None}, {"b": "it's"}]


def test_ai_in_delete(session: Session) -> None:
    """Rows go where the model says yes; the other rows stay."""
    kept = ask(session, "SELECT id FROM people WHERE (id = 1 OR ai_filter('x', note)) IS NOT TRUE ORDER BY id").rows
    count = ask(session, "SELECT count(*) AS n FROM people").rows[0]["n"]
    assert session.update("DELETE FROM people WHERE id = 1 OR ai_filter('x', note)") == count - len(kept) > 0
    assert ask(session, "SELECT id FROM people ORDER BY id").rows == kept


def test_settings(session: Session) -> None:
    """SET, RESET, options and single calls change settings; SHOW and options tell them."""
    session.update("SET flightllm.optimizer = 'off'")
    assert session.get_options()["optimizer"] == "off"
    sql = "SELECT ai_gen('s', note) FROM people"
    assert ask(session, sql).calls == 7
    assert ask(session, sql, optimizer="on", cache="off").calls == 4
    assert ask(session, sql).calls == 7
    session.update("RESET flightllm.optimizer")
    session.set_option("cache", "off")
    session.update("SET flightllm.max_calls = 5")
    chosen = session.get_options()
    assert (chosen["optimizer"], chosen["cache"], chosen["max_calls"]) == ("on", "off", "5")
    with pytest.raises(InvalidInputError, match=r"flightllm\.optimizer"):
        session.update("SET flightllm.nope = 'on'")


def test_settings_are_a_sessions_own(database: Database) -> None:
    """What one session sets, another does not see."""
    first, second = database.session(), database.session()
    first.set_option("optimizer", "off")
    assert second.get_options()["optimizer"] == "on"


@pytest.mark.parametrize("mode", ["create", "append", "replace", "create_append"])
def test_ingest(session: Session, mode: Any) -> None:
    """Uploads make, extend or replace tables that AI queries then read."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    batch = pa.RecordBatch.from_pydict({"k": [1, 2], "v": ["a", None]}, schema=schema)
    if mode == "append":
        with pytest.raises(NotFoundError):
            session.ingest("up", [batch], schema, mode)
        session.ingest("up", [batch], schema, "create")
    assert session.ingest("up", [batch, batch], schema, mode) == 4
    rows = 6 if mode == "append" else 4
    ran = ask(session, "SELECT k, ai_gen('x', v) FROM up")
    assert (ran.table.num_rows, ran.calls) == (rows, 1)


@pytest.mark.parametrize("last", [False, True], ids=["between batches", "after the last one"])
def test_a_cancelled_ingest(database: Database, session: Session, last: bool) -> None:
    """Rows of an upload that was cancelled are not stored, whether more of them come or not."""
    batch = pa.record_batch({"k": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        [record] = database.queries.running()
        record.cancel()
        if not last:
            yield batch

    with pytest.raises(CancelledError):
        session.ingest("up", batches(), batch.schema, "create")
    assert [row["status"] for row in ask(session, "SELECT status FROM system.queries WHERE kind = 'ingest'").rows] == [
        "cancelled"
    ]
    with pytest.raises(NotFoundError):
        database.catalog.table("up")


def dying(folder: Path, after: int) -> Database:
    """Open a database whose engine dies after some completions, and whose queries then fail."""
    recovery = RecoveryConfig(on_engine_down="fail")
    database = small_database(folder, {"die_after": after, "latency_ms": 1}, window=8, recovery=recovery)
    database.session().update(NUMBERS)
    return database


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_engine_dies(tmp_path: Path, optimizer: str) -> None:
    """An engine that dies mid-query is named in the error, and the server goes on."""
    database = dying(tmp_path, 50)
    session = database.session()
    result = session.execute("SELECT ai_gen('x', n) FROM numbers", settings={"optimizer": optimizer})
    with pytest.raises(EngineUnavailableError, match=r"fake \(demo\)"):
        list(result.batches)
    row = row_of(session, result.query.query_id)
    assert row["status"] == "failed"
    assert "fake (demo)" in row["error"]
    assert ask(session, "SELECT count(*) AS n FROM numbers").rows == [{"n": 2000}]
    database.close()


def test_answers_survive_a_dead_engine(tmp_path: Path) -> None:
    """What was answered before the engine died is kept: the same query then buys only the rest."""
    database = dying(tmp_path, 500)
    with pytest.raises(EngineUnavailableError):
        ask(database.session(), "SELECT ai_gen('x', n) FROM numbers")
    database.close()
    database = small_database(tmp_path)
    ran = ask(database.session(), "SELECT ai_gen('x', n) FROM numbers")
    assert ran.cache_hits == 500
    assert ran.calls == 1500
    database.close()


def test_closed_early(tmp_path: Path) -> None:
    """A client that stops reading stops the engine."""
    database = small_database(tmp_path, SLOW, window=4)
    session = database.session()
    session.update(NUMBERS)
    result = session.execute("SELECT ai_gen('x', n) FROM numbers")
    with closing(result.batches) as rows:
        assert next(rows).num_rows
    sent = database.engine.inner.sent  # type: ignore[attr-defined]
    assert sent < 1500
    assert row_of(session, result.query.query_id)["status"] == "cancelled"
    ask(session, "SELECT 1")
    assert database.engine.inner.sent == sent  # type: ignore[attr-defined]
    database.close()


def test_first_rows_come_early(tmp_path: Path) -> None:
    """A projection streams: its first rows are there long before its last prompts are sent."""
    database = small_database(tmp_path, SLOW, window=8)
    session = database.session()
    session.update(NUMBERS)
    result = session.execute("SELECT n, ai_gen('x', n) FROM numbers")
    with closing(result.batches) as rows:
        next(rows)
        assert database.engine.inner.sent < 1000  # type: ignore[attr-defined]
    database.close()


def test_limit_stops_the_engine(tmp_path: Path) -> None:
    """A limit over an AI filter asks for a small part of a large table."""
    database = small_database(tmp_path, SLOW, window=8)
    session = database.session()
    session.update(NUMBERS)
    ran = ask(session, "SELECT n FROM numbers WHERE ai_filter('x', n) LIMIT 5")
    assert ran.table.num_rows == 5
    assert ran.calls < 500
    database.close()


def test_two_at_once(tmp_path: Path) -> None:
    """Two sessions run at once with their own settings and get their own rows."""
    database = small_database(tmp_path, {"latency_ms": 1}, window=8)
    database.session().update(NUMBERS)
    expected = {
        prompt: canonical(ask(database.session(), f"SELECT n, ai_gen('{prompt}', n) FROM numbers WHERE n < 400").table)
        for prompt in ("a", "b")
    }
    found: dict[str, list[str]] = {}

    def work(prompt: str, optimizer: str) -> None:
        sql = f"SELECT n, ai_gen('{prompt}', n) FROM numbers WHERE n < 400"
        found[prompt] = canonical(ask(database.session(), sql, optimizer=optimizer, cache="off").table)

    threads = [threading.Thread(target=work, args=pair) for pair in (("a", "on"), ("b", "off"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    database.close()


def test_one_cancelled_other_goes_on(tmp_path: Path) -> None:
    """Stopping one query leaves another alone."""
    database = small_database(tmp_path, SLOW, window=4)
    session = database.session()
    session.update(NUMBERS)
    first = session.execute("SELECT ai_gen('x', n) FROM numbers")
    next(first.batches)
    ran = ask(session, "SELECT ai_gen('y', note) FROM people")
    assert ran.table.num_rows == 9
    first.batches.close()
    assert row_of(session, ran.record.query_id)["status"] == "done"
    database.close()


def test_figures(session: Session) -> None:
    """`system.queries` and `system.ai_calls` record what a query took, and add up."""
    sql = "SELECT ai_gen('x', note), ai_score('y', note) FROM people"
    ran = ask(session, sql)
    row = row_of(session, ran.record.query_id)
    assert row["sql"] == sql
    assert (row["status"], row["rows"], row["error"]) == ("done", 9, None)
    assert (row["calls"], row["distinct_prompts"], row["cache_hits"], row["failed_rows"]) == (8, 8, 0, 0)
    assert row["prompt_tokens"] > row["completion_tokens"] > 0
    assert row["seconds"] >= 0
    sites = ask(
        session, f"SELECT * FROM system.ai_calls WHERE query_id = '{ran.record.query_id}' ORDER BY call_site"
    ).rows
    assert [site["function"] for site in sites] == ["ai_gen", "ai_score"]
    for figure in ("calls", "prompt_tokens", "completion_tokens", "distinct_prompts"):
        assert sum(site[figure] for site in sites) == row[figure]
    again = row_of(session, ask(session, sql).record.query_id)
    assert (again["calls"], again["cache_hits"], again["prompt_tokens"]) == (0, 8, 0)


def test_failure_while_running(session: Session) -> None:
    """A cast that fails on a row ends the query with DataFusion's words, on record."""
    result = session.execute("SELECT CAST(name AS INT), ai_gen('x', note) FROM people")
    with pytest.raises(SqlError, match=r"Ann|Bob|Dan|Eve|Fay"):
        list(result.batches)
    assert row_of(session, result.query.query_id)["status"] == "failed"


def test_limits(session: Session) -> None:
    """SQL beyond the caps is refused before it is planned, and the session goes on."""
    with pytest.raises(LimitExceededError):
        session.execute("SELECT " + " OR ".join(["1 = 2"] * 10_000))
    with pytest.raises(LimitExceededError):
        session.execute(" UNION ALL ".join(["SELECT 1"] * 5_000))
    assert ask(session, "SELECT 1 AS one").rows == [{"one": 1}]


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (lambda session: session.is_update("INSERT INTO people SELECT * FROM people"), 0),
        (lambda session: session.returns_rows("DELETE FROM people RETURNING id"), 0),
        (lambda session: session.describe("DELETE FROM people WHERE id = ?"), 0),
        (lambda session: session.update("SET flightllm.cache = 'off'"), 0),
        (lambda session: session.update("DELETE FROM people WHERE id = ?", pa.table({"1": [-1, -2, -3]})), 0),
        (lambda session: session.update("CREATE TABLE made AS SELECT 1 + 1"), 1),
        (lambda session: session.update("CREATE VIEW seen AS SELECT 1 + 1"), 1),
        (lambda session: session.describe("SELECT ? + 1, ?"), 1),
        (lambda session: ask(session, "SELECT 1 + 1"), 1),
    ],
    ids=["kind", "returning", "change", "setting", "rows", "table", "view", "described", "run"],
)
def test_names_of_columns_are_read_where_they_are_used(
    session: Session, monkeypatch: pytest.MonkeyPatch, run: Callable[[Session], object], times: int
) -> None:
    """The names of a query's columns are read once where it is planned, and for no other statement."""
    read = Mock(wraps=output_names)
    monkeypatch.setattr("flightllm.session.reading.output_names", read)
    run(session)
    assert read.call_count == times


def test_describe_plans_its_query_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESCRIBE of a query plans that query once, and names the types of its columns as SQL does."""
    planned = Mock(wraps=plan)
    monkeypatch.setattr("flightllm.session.reading.plan", planned)
    rows = ask(session, "DESCRIBE SELECT id, 1 + 1, [now()], ai_filter('x', note) FROM people").table
    assert planned.call_count == 1
    assert rows["column_name"].to_pylist() == ["id", "1 + 1", "[now()]", "ai_filter('x', note)"]
    assert rows["data_type"].to_pylist() == ["BIGINT", "BIGINT", "TIMESTAMP WITH TIME ZONE[]", "BOOLEAN"]
    assert rows["is_nullable"].to_pylist() == ["YES", "NO", "YES", "YES"]


@pytest.mark.parametrize("schema", ["", "public.", "side."])
def test_columns_of_a_view_that_asks_a_model(session: Session, schema: str) -> None:
    """DESCRIBE and SHOW COLUMNS list the columns of a view with AI calls, also a temporary one, and ask no model."""
    session.update("CREATE SCHEMA IF NOT EXISTS side")
    kind = "" if schema else "TEMPORARY "
    session.update(f"CREATE {kind}VIEW {schema}said AS SELECT id, ai_gen('Say {{note}}', note) AS t FROM people")
    described = ask(session, f"DESCRIBE {schema}said")
    assert [(row["column_name"], row["data_type"], row["key"]) for row in described.rows] == [
        ("id", "BIGINT", None),
        ("t", "VARCHAR", None),
    ]
    shown = ask(session, f"SHOW COLUMNS FROM {schema}said")
    assert [(row["table_name"], row["column_name"], row["data_type"]) for row in shown.rows] == [
        ("said", "id", "BIGINT"),
        ("said", "t", "VARCHAR"),
    ]
    assert shown.calls == described.calls == 0


def test_read_only(session: Session) -> None:
    """A read-only session refuses all changes and uploads but those of its settings, and stays read-only."""
    session.update("CREATE TABLE kept AS SELECT 1 AS a")
    session.update("SET flightllm.read_only = 'on'")
    refused = (
        "INSERT INTO kept VALUES (2)",
        "WITH x AS (SELECT 2 AS a) INSERT INTO kept SELECT a FROM x",
        "DROP TABLE kept",
        "CREATE TEMPORARY TABLE other AS SELECT 1 AS a",
        "CREATE PROMPT p AS 'What is it?'",
        "GRANT SELECT ON kept TO PUBLIC",
        "SET flightllm.read_only = 'off'",
        "RESET flightllm.read_only",
        "RESET flightllm.all",
    )
    for sql in refused:
        for run in (session.update, session.describe):
            with pytest.raises(PermissionDeniedError, match=r"^flightllm\.read_only is on"):
                run(sql)
    with pytest.raises(PermissionDeniedError):
        session.ingest("kept", [], pa.schema([("a", pa.int64())]), "append")
    with pytest.raises(PermissionDeniedError):
        session.set_option("read_only", "off")
    session.update("SET flightllm.max_calls = '1'")
    assert pa.Table.from_batches(session.execute("SELECT * FROM kept").batches).to_pylist() == [{"a": 1}]


def test_read_only_for_one_call(session: Session) -> None:
    """A call's own setting holds for the call, whatever the session says, and for no other call."""
    session.update("CREATE TABLE kept AS SELECT 1 AS a")
    for sql in ("INSERT INTO kept VALUES (2)", "SET flightllm.read_only = 'off'"):
        with pytest.raises(PermissionDeniedError):
            session.update(sql, settings={"read_only": "on"})
    assert session.update("INSERT INTO kept VALUES (2)") == 1
