"""Queries of WITH that have random values."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with the small tables."""
    with closing(small_database(tmp_path_factory.mktemp("random"))) as database:
        yield database.session()


@pytest.mark.parametrize("dialect", ["default", "postgres", "duckdb"])
@pytest.mark.parametrize(
    "sql",
    [
        "WITH t AS (SELECT random() AS r) SELECT t.r = u.r FROM t CROSS JOIN t u",
        "WITH t AS (SELECT random() AS r FROM (VALUES (1), (2)) v(x)) SELECT r FROM t WHERE r = (SELECT max(r) FROM t)",
        "WITH s AS (SELECT random() AS r), t AS (SELECT r + 1 AS r FROM s) SELECT t.r = u.r FROM t, t u",
        "SELECT * FROM (WITH t AS (SELECT gen_random_uuid() AS r) SELECT r FROM t UNION SELECT r FROM t) q",
    ],
)
def test_read_twice(session: Session, sql: str, dialect: str) -> None:
    """The server would draw the values twice, so the error names the table to make."""
    with pytest.raises(UnsupportedError, match=r"the query t of WITH has random values.*: write CREATE TABLE t AS"):
        ask(session, sql, **{"flightllm.dialect": dialect})


@pytest.mark.parametrize(
    "sql",
    [
        "WITH t AS (SELECT random() AS r) SELECT r >= 0 AS v FROM t",
        "WITH t AS (SELECT 1 AS r), s AS (SELECT random() AS r) SELECT t.r = u.r AS v FROM t, t u, s",
        "WITH t AS (SELECT 1 AS r) SELECT random() >= 0 AS v FROM t, t u",
        "WITH RECURSIVE t AS (SELECT random() n UNION ALL SELECT n + 1 FROM t WHERE n < 1) SELECT max(n) > 1 v FROM t",
    ],
)
def test_read_once(session: Session, sql: str) -> None:
    """A query that is read once, and one without random values, run."""
    assert ask(session, sql).rows == [{"v": True}]


def test_other_dialects(session: Session) -> None:
    """BigQuery and Spark compute such a query each time themselves."""
    sql = "WITH t AS (SELECT rand() AS r) SELECT t.r = u.r AS v FROM t CROSS JOIN t u"
    for dialect in ("bigquery", "spark"):
        assert ask(session, sql, **{"flightllm.dialect": dialect}).rows == [{"v": False}]
