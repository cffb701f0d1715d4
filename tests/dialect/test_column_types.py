"""FLOAT of CREATE TABLE has the bits that its dialect gives it."""

from collections.abc import Iterator

import pytest

from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return one session for all tests of this file."""
    database = small_database(tmp_path_factory.mktemp("floats"))
    yield database.session()
    database.close()


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [("postgres", ["double", "double", "float", "float"]), ("duckdb", ["float"]), ("snowflake", ["double"])],
)
def test_created(session: Session, dialect: str, wanted: list[str]) -> None:
    """PostgreSQL's FLOAT has 64 bits, but for few digits; DuckDB's has 32 bits."""
    kinds = ("float", "float(30)", "float(24)", "real")[: len(wanted)]
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
    options = {"flightllm.dialect": dialect}
    session.update(f"CREATE TABLE floats_{dialect} ({columns}, float text)", None, options)
    found = ask(session, f"SELECT * FROM floats_{dialect}", **options).table.schema
    assert [str(one) for one in found.types[:-1]] == wanted


def test_large_numbers(session: Session) -> None:
    """A large number stays in a column FLOAT of postgres."""
    options = {"flightllm.dialect": "postgres"}
    session.update("CREATE TABLE IF NOT EXISTS large (a float, b float(53))", None, options)
    session.update("INSERT INTO large VALUES (1e300, 123456789.123)", None, options)
    assert ask(session, "SELECT a, b FROM large", **options).rows == [{"a": 1e300, "b": 123456789.123}]
