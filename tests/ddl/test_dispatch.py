"""Changes to tables: cancelled until they take effect, and rows of parameters taken together."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.ddl.dispatch import bound_texts
from flightllm.errors import CancelledError, FlightLLMError, PermissionDeniedError, SqlError, UnknownTableError
from flightllm.execution.planning import plan
from flightllm.functions import FunctionRegistry
from flightllm.observe.query_record import CancelToken
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, small_database
from tests.servers import await_true

NUMBERS = "CREATE TABLE numbers AS SELECT value AS n FROM generate_series(1, 2000)"
ENDLESS = "SELECT count(*) AS c FROM generate_series(1, 1000000000000) AS s(v) WHERE v % 3 = 1"
MOST_SECONDS = 60


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of small tables, one of numbers and an empty one."""
    database = small_database(tmp_path, {"latency_ms": 20}, window=4)
    for statement in (NUMBERS, "CREATE TABLE counts (c BIGINT)"):
        database.session().update(statement)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


@pytest.mark.parametrize("by", ["event", "id"])
@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO counts {ENDLESS}",
        f"INSERT INTO counts WITH w AS ({ENDLESS}) SELECT c FROM w",
        f"CREATE TABLE made AS {ENDLESS}",
        "INSERT INTO counts SELECT length(ai_gen('x', n)) FROM generate_series(1, 1000000) AS s(n)",
    ],
    ids=["insert", "insert with", "create", "insert answers"],
)
def test_cancelled_before_it_takes_effect(database: Database, session: Session, sql: str, by: str) -> None:
    """A statement that adds rows stops while it computes them, is recorded as cancelled, and adds none later."""
    cancelled, errors = CancelToken(), []

    def work() -> None:
        try:
            session.update(sql, cancelled=cancelled if by == "event" else None)
        except CancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    await_true(lambda: len(database.queries.running()) == 1)
    if "ai_gen" in sql:
        await_true(lambda: database.queries.running()[0].row()["answered"] > 0)
    else:
        thread.join(0.3)  # it computes then, most likely, and stops just as well where it does not yet
    (record,) = database.queries.running()
    (cancelled.set if by == "event" else record.cancel)()
    thread.join(MOST_SECONDS)
    assert len(errors) == 1
    assert record.row()["status"] == "cancelled"
    assert ask(session, "SELECT count(*) AS n FROM counts").rows == [{"n": 0}]
    with pytest.raises(SqlError, match="made"):
        session.describe("SELECT * FROM made")


@pytest.mark.parametrize(
    "sql", ["INSERT INTO counts VALUES (1)", "DELETE FROM numbers", "UPDATE numbers SET n = 1", "DROP TABLE numbers"]
)
def test_cancelled_before_it_begins(session: Session, sql: str) -> None:
    """A statement whose client has gone already changes nothing."""
    gone = CancelToken()
    gone.set()
    with pytest.raises(CancelledError):
        session.update(sql, cancelled=gone)
    assert ask(session, "SELECT count(*) AS n, max(n) AS m FROM numbers").rows == [{"n": 2_000, "m": 2_000}]
    assert ask(session, "SELECT count(*) AS n FROM counts").rows == [{"n": 0}]


def test_values_see_what_their_user_may_read(database: Database, session: Session) -> None:
    """A subquery in VALUES is planned over the tables of its user, not over all."""
    ann = User("ann", "user")
    database.access.store.add_user(ann)
    session.update("GRANT CREATE ON SCHEMA public TO ann")
    there = database.session(ann.principal)
    there.update("CREATE TABLE mine (a BIGINT)")
    with pytest.raises(UnknownTableError, match=r"public\.numbers' not found, or not granted"):
        there.update("INSERT INTO mine VALUES ((SELECT max(n) FROM numbers))")
    assert ask(there, "SELECT * FROM mine").rows == []


def test_insert_is_what_it_was(session: Session) -> None:
    """Rows of a plain INSERT are cast, may come from their own table, and leave other columns at their defaults."""
    session.update("CREATE TABLE t (a INT NOT NULL, d DATE, s VARCHAR DEFAULT 'none')")
    assert session.update("INSERT INTO t (d, a) VALUES ('2024-05-06', 1.0), (NULL, 2)") == 2
    assert session.update("INSERT INTO t SELECT * FROM t") == 2
    assert (
        ask(session, "SELECT a, CAST(d AS VARCHAR) AS d, s FROM t WHERE a = 1").rows
        == [{"a": 1, "d": "2024-05-06", "s": "none"}] * 2
    )
    for wrong in (
        "INSERT INTO t (a) VALUES ('x')",
        "INSERT INTO t (a, a) VALUES (1, 2)",
        "INSERT INTO t (d) VALUES (1)",
    ):
        with pytest.raises(SqlError):
            session.update(wrong)
    assert session.update("INSERT INTO t SELECT * FROM t WHERE false") == 0
    mixed = "INSERT INTO t (a, d, s) VALUES (3, '2024-01-01', 4), (3.9, current_date(), 'x'), ('5', NULL, true)"
    assert session.update(mixed) == 3
    assert ask(session, "SELECT a, s FROM t WHERE a > 2 ORDER BY a").rows == [
        {"a": 3, "s": "4"},
        {"a": 4, "s": "x"},
        {"a": 5, "s": "true"},
    ]
    with pytest.raises(PermissionDeniedError):
        session.update("INSERT INTO system.queries (sql) VALUES ('x')")


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("insert into t VALUES (?, ?)", ["VALUES (1, 'a'), (2, 'b;(')"]),
        (
            "INSERT INTO t (x, y) VALUES ($2, upper($1) || ')') -- note",
            ["VALUES ('a', upper(1) || ')'), ('b;(', upper(2)"],
        ),
        ("INSERT INTO t VALUES (?, 1), (?, 2)", ["VALUES (1, 1), ('a', 2), (2, 1), ('b;(', 2)"]),
        ("INSERT INTO flightllm.public.t VALUES (?, ?)", ["VALUES (1, 'a'), (2, 'b;(')"]),
        ("INSERT INTO t VALUES (?, ai_gen(?))", ["(1, ai_gen('a'))", "(2, ai_gen('b;('))"]),
        ("INSERT INTO t SELECT ?, ?", ["SELECT 1, 'a'", "SELECT 2, 'b;('"]),
        ("INSERT INTO t VALUES (?, ?) ORDER BY 1", ["(1, 'a') ORDER", "(2, 'b;(') ORDER"]),
        ("DELETE FROM t WHERE x = ? AND y = ?", ["x = 1 AND y = 'a'", "x = 2 AND y = 'b;('"]),
    ],
)
def test_rows_of_parameters_together(sql: str, texts: list[str]) -> None:
    """VALUES become as many as there are rows of parameters; any other statement stays one for each."""
    rows = pa.table({"0": pa.chunked_array([[1], [2]]), "1": ["a", "b;("]})
    together = [text.sql for text, _ in bound_texts(ParsedText(sql), rows, FunctionRegistry.load())]
    assert len(together) == len(texts)
    assert all(part in text for part, text in zip(texts, together, strict=True))


def test_long_rows_of_parameters_stay_apart() -> None:
    """Rows are put together up to the length that a statement's own text may have."""
    rows = pa.table({"0": ["x" * (300 << 10)] * 8})
    [(text, more)] = bound_texts(ParsedText("INSERT INTO t VALUES (?)"), rows, FunctionRegistry.load())
    assert [part.sql.count("('x") for part in (text, *(more or ()))] == [4, 4]


@pytest.mark.slow
def test_thousands_of_rows_of_parameters(database: Database, session: Session) -> None:
    """2,500 rows are inserted by one statement, in order, NULLs, quotes and what looks like AI calls included."""
    session.update("CREATE TABLE t (a BIGINT, s VARCHAR)")
    rows = {"a": list(range(2_500)), "s": [None if i % 7 == 0 else f"it's ai_gen({i})" for i in range(2_500)]}
    before = len(database.queries.snapshot("queries"))
    assert session.update("INSERT INTO t VALUES (?, ?)", pa.table(rows)) == 2_500
    assert len(database.queries.snapshot("queries")) - before == 1
    assert ask(session, "SELECT * FROM t ORDER BY a").table.to_pydict() == rows
    assert session.update("INSERT INTO t VALUES (?, ?)", pa.table(rows).slice(0, 0)) == 0


@pytest.mark.parametrize(
    ("sql", "values", "error"),
    [
        ("INSERT INTO t VALUES (?)", [*range(2_500), None], "is NULL"),
        ("INSERT INTO t VALUES (?), (7)", [*map(str, range(2_500)), "x"], "x"),
        ("INSERT INTO t VALUES (length(repeat('x', ?)))", [*range(2_500), 10**12], "memory"),
    ],
    ids=["null", "text", "size"],
)
def test_one_wrong_row_of_parameters(session: Session, sql: str, values: list[Any], error: str) -> None:
    """Where the last of thousands of rows cannot be inserted, none is."""
    session.update("CREATE TABLE t (a BIGINT NOT NULL)")
    with pytest.raises(FlightLLMError, match=error):
        session.update(sql, pa.table({"0": values}))
    assert ask(session, "SELECT count(*) AS n FROM t").rows == [{"n": 0}]


def test_answers_for_each_row_of_parameters(session: Session) -> None:
    """VALUES with AI calls run once for each row of parameters."""
    rows = pa.table({"0": ["a", "b"]})
    assert session.update("INSERT INTO counts VALUES (length(ai_gen('x', ?)))", rows) == 2
    assert ask(session, "SELECT count(*) AS n FROM counts").rows == [{"n": 2}]


@pytest.mark.parametrize(
    ("sql", "plans"),
    [
        ("SELECT nope FROM people WHERE id = ? AND name = ? AND id < ? AND id > ?", 5),
        ("SELECT id FROM people WHERE ai_filter(?, note) AND id = ? LIMIT ? OFFSET ?", None),
        ("SELECT ai_gen(?, note), ai_score(?, note) FROM people LIMIT ?", None),
    ],
)
def test_stand_ins(session: Session, monkeypatch: pytest.MonkeyPatch, sql: str, plans: int | None) -> None:
    """A statement that is wrong whatever its parameters are is given up soon; any that can be planned is found."""
    count = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return plan(*arguments, **options)

    monkeypatch.setattr("flightllm.session.reading.plan", counted)
    if plans is None:
        assert len(session.describe(sql).parameters) == sql.count("?")
    else:
        with pytest.raises(SqlError, match="nope"):
            session.describe(sql)
        assert count == plans


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, 0, 0 FROM people WHERE id = 1",
        "(SELECT 1, 0, 0)",
        "WITH q AS (SELECT 1 AS x) SELECT x, x - x, x - x FROM q",
        "SELECT 1, 0, 0 UNION ALL SELECT 1, 0, 0 WHERE false",
        "SELECT id, length(ai_gen('x', '')) * 0, length(ai_gen('x', '')) * 0 FROM people WHERE id = 1",
    ],
)
def test_expressions_of_one_name(session: Session, query: str) -> None:
    """Columns of an INSERT's query go by position, so two can have one name; a new table numbers the second one."""
    session.update("CREATE TABLE three (a BIGINT, b BIGINT, c BIGINT)")
    assert session.update(f"INSERT INTO three {query}") == 1
    assert ask(session, "SELECT * FROM three").rows == [{"a": 1, "b": 0, "c": 0}]
    session.update("CREATE TABLE made AS SELECT 0, 0")
    assert ask(session, "SELECT * FROM made").rows == [{"0": 0, "0 (2)": 0}]
    with pytest.raises(FlightLLMError, match="name"):
        session.update("CREATE VIEW seen AS SELECT 0, 0")
