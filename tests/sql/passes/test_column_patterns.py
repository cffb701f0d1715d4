"""COLUMNS of DuckDB becomes the columns that it chooses."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, open_database

TABLES = (
    "CREATE TABLE many AS SELECT * FROM (VALUES (1, 'x', 1.5), (2, 'y', NULL), (4, NULL, 0.5)) AS v(n, w, xn)",
    "CREATE TABLE other AS SELECT * FROM (VALUES (2, 5), (4, 6)) AS v(n, q)",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the tables that DuckDB has, too."""
    database = open_database(tmp_path_factory.mktemp("columns"))
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
        "SELECT min(COLUMNS(*)) FROM many",
        "SELECT COLUMNS('n') FROM many ORDER BY ALL",
        "SELECT COLUMNS('^n'), 1 AS one FROM many ORDER BY n",
        "SELECT COLUMNS(lambda c: c LIKE '%n') FROM many ORDER BY n",
        r"""SELECT COLUMNS('(x)?(n)') AS "c_\1\2_\0" FROM many ORDER BY ALL""",
        r"""SELECT COLUMNS('[[:alpha:]]') AS "c\0" FROM many ORDER BY 1""",
        r"""SELECT COLUMNS('(w|n$)') AS "c\1_\0" FROM many ORDER BY 1""",
        "SELECT COLUMNS(* EXCLUDE (w)) FROM many ORDER BY n",
        "SELECT COLUMNS(* EXCLUDE (W)) FROM many ORDER BY n",
        "SELECT sum(COLUMNS(['xn', 'n'])) FROM many",
        "SELECT COLUMNS(*)::VARCHAR FROM many ORDER BY 1",
        "SELECT coalesce(COLUMNS('n'), 0) + 1 FROM many ORDER BY 1",
        "SELECT * FROM many WHERE COLUMNS(*) IS NOT NULL",
        "SELECT COLUMNS(o.*) FROM many AS m JOIN other AS o ON m.n = o.n ORDER BY 1",
        "SELECT COLUMNS(*) FROM many JOIN other USING (n) ORDER BY n",
    ],
)
def test_columns(session: Session, vendor: Any, sql: str) -> None:
    """The columns and the rows are those of DuckDB."""
    expected = vendor.execute(sql)
    table = ask(session, sql, dialect="duckdb").table
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert (table.column_names, rows) == ([one[0] for one in expected.description], expected.fetchall())


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COLUMNS('zz') FROM many", "write names among n, w, xn"),
        ("SELECT COLUMNS('(') FROM many", "write one as"),
        ("SELECT COLUMNS('(?=n)') FROM many", "write one as"),
        (r"""SELECT COLUMNS('(n)') AS "c\2" FROM many""", "write .0 for the name"),
        ("SELECT COLUMNS('n') + COLUMNS('w') FROM many", "one item for each column"),
        ("SELECT n FROM many GROUP BY COLUMNS('n')", "name the columns"),
        ("SELECT COLUMNS(lambda c: upper(c) = 'N') FROM many", "name each column"),
    ],
)
def test_refused(session: Session, sql: str, said: str) -> None:
    """An error says what to write."""
    with pytest.raises(FlightLLMError, match=said):
        ask(session, sql, dialect="duckdb")


def test_nested_repeats(session: Session) -> None:
    """A pattern with nested repeats ends at once for a long name that it does not match."""
    with pytest.raises(FlightLLMError, match="finds no column"):
        ask(session, f"SELECT COLUMNS('^(a+)+$') FROM (SELECT 1 AS \"{'a' * 60}!\") AS v", dialect="duckdb")
