"""A query about the catalog keeps no engine open."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask, open_database

duckdb = pytest.importorskip("duckdb")
QUERY = "SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relname = 't' ORDER BY relname"
PLANNED = "SELECT relname, relkind FROM pg_class WHERE relname = 't'"
"""A query whose columns no other test asks: a catalog keeps the columns of the queries that it has read."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over one table."""
    database = open_database(tmp_path_factory.mktemp("catalog"))
    session = database.session()
    session.update("CREATE TABLE t (a INTEGER)")
    yield session
    database.close()


@pytest.fixture
def open_engines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that counts the engines that were opened since, and are open still."""
    opened: list[Any] = []
    connect = duckdb.connect

    def noted(*given: Any, **named: Any) -> Any:
        opened.append(connect(*given, **named))
        return opened[-1]

    def count() -> int:
        assert opened, "no engine was opened"
        return sum(map(_is_open, opened))

    monkeypatch.setattr(duckdb, "connect", noted)
    return count


def _is_open(connection: Any) -> bool:
    try:
        connection.execute("SELECT 1")
    except duckdb.ConnectionException:
        return False
    except duckdb.Error:  # an unread result is in the way
        return True
    return True


def test_described(session: Session, open_engines: Callable[[], int]) -> None:
    """A statement that is described and never run keeps none."""
    assert session.describe(QUERY).schema.names == ["relname", "pg_get_userbyid"]
    assert open_engines() == 0


def test_planned(session: Session, open_engines: Callable[[], int]) -> None:
    """A query that is planned and not read yet keeps none; its rows come from an engine that closes after them."""
    result = session.execute(PLANNED)
    assert open_engines() == 0
    assert [name for batch in result.batches for name in batch[0].to_pylist()] == ["t"]
    assert open_engines() == 0


def test_unread(session: Session, open_engines: Callable[[], int]) -> None:
    """A query whose reader stops early keeps none."""
    batches = iter(session.execute(QUERY).batches)
    next(batches)
    assert open_engines() == 1
    batches.close()  # type: ignore[attr-defined]
    assert open_engines() == 0


@pytest.mark.parametrize("sql", [QUERY.replace("relowner)", "nope)")])
def test_failed(session: Session, open_engines: Callable[[], int], sql: str) -> None:
    """A query that fails while it is planned keeps none."""
    with pytest.raises(SqlError):
        session.describe(sql)
    assert open_engines() == 0


def test_failed_rows(session: Session, open_engines: Callable[[], int]) -> None:
    """A query that fails while its rows are made keeps none."""
    with pytest.raises(SqlError):
        ask(session, "SELECT relname::int FROM pg_class")
    assert open_engines() == 0
