"""ORDER BY reads the column of the table where a dialect gives the cast of a column another name."""

from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database

FALLING = [("100",), ("20",), ("9",)]
BY_TEXT = [("9",), ("20",), ("100",)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a session with prices whose texts have another order."""
    folder: Path = tmp_path_factory.mktemp("cast_names")
    session = open_database(folder).session()
    session.update("CREATE TABLE sales AS SELECT * FROM (VALUES (9), (100), (20)) AS v(price)")
    return session


def _values(session: Session, sql: str, dialect: str) -> list[tuple[object, ...]]:
    return list(zip(*ask(session, sql, dialect=dialect).table.to_pydict().values(), strict=True))


@pytest.mark.parametrize("dialect", ["duckdb", "snowflake", "bigquery"])
def test_by_the_column(session: Session, dialect: str) -> None:
    """The order is that of the numbers, and the column keeps its name as written."""
    sql = "SELECT CAST(price AS STRING) FROM sales ORDER BY price DESC"
    assert _values(session, sql, dialect) == FALLING
    assert ask(session, sql, dialect=dialect).table.schema.names == ["CAST(price AS STRING)"]
    inner = "SELECT * FROM (SELECT CAST(price AS STRING) FROM sales ORDER BY price DESC LIMIT 1) AS q"
    assert _values(session, inner, dialect) == FALLING[:1]


@pytest.mark.parametrize("dialect", ["postgres", "spark", "databricks"])
def test_by_the_cast(session: Session, dialect: str) -> None:
    """PostgreSQL and Spark name a cast by its column, so the order is that of the texts."""
    assert _values(session, "SELECT CAST(price AS VARCHAR) FROM sales ORDER BY price DESC", dialect) == BY_TEXT


def test_an_alias_stays(session: Session) -> None:
    """An alias of the column's name is the key."""
    assert _values(session, "SELECT price::VARCHAR AS price FROM sales ORDER BY price DESC", "duckdb") == BY_TEXT


def test_names_of_a_new_table(session: Session) -> None:
    """A new table has the name that the dialect gives to the cast."""
    ask_for = "CREATE TABLE texts AS SELECT price::VARCHAR FROM sales ORDER BY price DESC LIMIT 1"
    session.update("SET flightllm.dialect = 'duckdb'")
    session.update(ask_for)
    session.update("RESET flightllm.dialect")
    assert ask(session, "SELECT * FROM texts").rows == [{"price::VARCHAR": "100"}]
