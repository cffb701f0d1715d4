"""A star over USING and NATURAL has the columns of the real DuckDB, in its order."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, open_database

TABLES = (
    "CREATE TABLE a AS SELECT * FROM (VALUES (1, 2, 3), (4, 5, 6)) AS v(x, y, k)",
    "CREATE TABLE b AS SELECT * FROM (VALUES (3, 7, 2), (9, 8, 5)) AS v(k, z, y)",
    "CREATE TABLE c AS SELECT * FROM (VALUES (30, 3), (90, 9)) AS v(w, k)",
    "CREATE TABLE d AS SELECT * FROM (VALUES (7, 70), (8, 80)) AS v(z, u)",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the tables that DuckDB has, too."""
    database = open_database(tmp_path_factory.mktemp("joins"))
    session = database.session()
    for statement in TABLES:
        session.update(statement)
    yield session
    database.close()


@pytest.fixture(scope="module")
def vendor() -> Any:
    """Open the real DuckDB with the same tables."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for statement in TABLES:
        connection.execute(statement)
    return connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM a JOIN b USING (k)",
        "SELECT * FROM a JOIN b USING (k, y)",
        "SELECT * FROM a JOIN b USING (y, k)",
        "SELECT * FROM a NATURAL JOIN b",
        "SELECT * FROM a NATURAL FULL JOIN b ORDER BY y, k",
        "SELECT * FROM a LEFT JOIN b USING (k) ORDER BY x",
        "SELECT * FROM a RIGHT JOIN b USING (k) ORDER BY z",
        "SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k) ORDER BY k",
        "SELECT * FROM a JOIN b USING (k) JOIN d USING (z)",
        "SELECT * FROM a JOIN (b JOIN d USING (z)) USING (k)",
        "SELECT * FROM d, a JOIN c USING (k) ORDER BY z",
        "SELECT a.*, b.* FROM a FULL JOIN b USING (k) ORDER BY a.x, b.z",
        "SELECT k, a.k, b.k FROM a FULL JOIN b USING (k) ORDER BY 1",
        "SELECT *, 1 AS o FROM a JOIN b USING (k)",
        "SELECT * EXCLUDE (k) FROM a JOIN b USING (k)",
        "SELECT * REPLACE (k + 1 AS k, -w AS w) FROM a RIGHT JOIN c USING (k) ORDER BY x",
        "SELECT * FROM (SELECT * FROM a JOIN c USING (k)) AS t JOIN (SELECT k, z FROM b) AS u USING (k)",
        "WITH q AS (FROM a JOIN c USING (k)) SELECT * FROM q",
        "SELECT * FROM a SEMI JOIN b USING (k)",
        "SELECT * FROM a ANTI JOIN b USING (k)",
        "SELECT * FROM a SEMI JOIN b USING (k) JOIN c USING (k)",
    ],
)
def test_star(session: Session, vendor: Any, sql: str) -> None:
    """The columns and the rows are those of DuckDB: a merged column has the place of its first table."""
    expected = vendor.execute(sql)
    table = ask(session, sql, dialect="duckdb").table
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert (table.column_names, rows) == ([one[0] for one in expected.description], expected.fetchall())


def test_star_of_the_standard(session: Session) -> None:
    """The other dialects have the merged columns first, as the SQL standard says."""
    assert ask(session, "SELECT * FROM a JOIN c USING (k)").table.column_names == ["k", "x", "y", "w"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM (SELECT 1 AS b, 3 AS k) JOIN a USING (k)", "has no name, but is joined with USING"),
        ("SELECT * RENAME (x AS o) FROM a JOIN b USING (k)", r"write SELECT \* EXCLUDE"),
    ],
)
def test_refused_star(session: Session, sql: str, said: str) -> None:
    """An error says what to write for a star that cannot be written."""
    with pytest.raises((SqlError, UnsupportedError), match=said):
        ask(session, sql, dialect="duckdb")
