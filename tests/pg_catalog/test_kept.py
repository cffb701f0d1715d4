"""A described statement is described once, and no engine stays open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from flightllm.errors import FlightLLMError
from flightllm.pg_catalog.engine import Engine
from flightllm.session.session import Session
from tests.databases import ask, open_database


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session over one table."""
    database = open_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE t (a INTEGER)")
    yield session
    database.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return the engines opened so far: whether each one is closed."""
    engines = list[bool]()
    begin, end = Engine.__init__, Engine.close

    def counted(self: Engine, *given: object) -> None:
        vars(self)["number"] = len(engines)
        engines.append(False)
        begin(self, *given)  # type: ignore[arg-type]

    def closed(self: Engine) -> None:
        engines[vars(self)["number"]] = True
        end(self)

    monkeypatch.setattr(Engine, "__init__", counted)
    monkeypatch.setattr(Engine, "close", closed)
    return engines


def test_columns_are_kept(session: Session, opened: list[bool]) -> None:
    """Only the first of the statements that differ in compared constants opens an engine for its columns."""
    for name, engines in (("t", 2), ("t", 1), ("pg_am", 1)):
        before = len(opened)
        table = ask(session, f"SELECT relname, relkind FROM pg_class WHERE relname = '{name}'").table
        assert table.to_pylist() == [{"relname": name, "relkind": "r"}]
        assert len(opened) - before == engines
    assert all(opened)


def test_another_catalog(session: Session, opened: list[bool]) -> None:
    """After a change the columns are described again."""
    sql = "SELECT 't'::regclass"
    ask(session, sql)
    session.update("DROP TABLE t")
    before = len(opened)
    with pytest.raises(FlightLLMError, match="no relation 't'"):
        ask(session, sql)
    assert len(opened) - before == 2
    assert all(opened)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("relname::text", "relname::name"),
        ("date_part('epoch', now())", "date_part('day', now())"),
        ("1", "'1'"),
        ("1", "10000000000"),
        ("1 + 1", "1 + 1.5"),
        ("oid", "oid::bigint"),
        ("coalesce(NULL, 1)", "coalesce(NULL, 'a')"),
    ],
)
def test_columns_of_another_type(session: Session, one: str, other: str) -> None:
    """A statement that differs in more than compared constants has its own columns."""
    for value in (one, other, one):
        result = session.execute(f"SELECT {value} AS x FROM pg_class WHERE relname = 't'")
        rows = list(result.batches)
        assert [row.schema.types for row in rows] == [result.schema.types]
    kinds = [session.describe(f"SELECT {value} AS x FROM pg_class").schema for value in (one, other)]
    assert not kinds[0].equals(kinds[1], check_metadata=True)


def test_an_engine_that_fails_is_closed(session: Session, opened: list[bool]) -> None:
    """An engine is closed when planning fails, when a run fails, and when rows are given up."""
    with pytest.raises(FlightLLMError):
        session.execute("SELECT no_such FROM pg_class")
    with pytest.raises(FlightLLMError):
        ask(session, "SELECT relname::int FROM pg_class")
    rows = iter(session.execute("SELECT * FROM pg_attribute").batches)
    next(rows)
    getattr(rows, "close", lambda: None)()
    session.describe("SELECT * FROM pg_type")
    assert opened
    assert all(opened)
