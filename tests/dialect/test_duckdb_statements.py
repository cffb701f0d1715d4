"""Whole statements of DuckDB have the rows that DuckDB returns, or an error with the text to write."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.dialect.functions.tables import CREATE, NUMBERS


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the tables that DuckDB has, too."""
    database = small_database(tmp_path_factory.mktemp("statements"))
    session = database.session()
    session.update(CREATE)
    session.update(NUMBERS)
    yield session
    database.close()


STATEMENTS = [
    "PIVOT many ON n IN (1, 2) USING sum(x) GROUP BY w ORDER BY w",
    "PIVOT many ON n IN (1, 2) USING sum(x) GROUP BY w ORDER BY w LIMIT 1",
    "SELECT n, lag(w IGNORE NULLS) OVER (ORDER BY n DESC, w) AS l FROM many ORDER BY n, w",
    "SELECT n, last_value(x IGNORE NULLS) OVER (ORDER BY n, w) AS l FROM many ORDER BY n, w",
    "SELECT w[1:1] AS x, w || n AS y FROM many ORDER BY n, w",
    "SELECT w.upper() AS x FROM many ORDER BY n, w",
    "SELECT w, list(n ORDER BY n)::VARCHAR AS l FROM many GROUP BY ALL ORDER BY ALL",
    "SELECT (max(day) - min(day)) // 2 AS d, sum(x) // 3 AS q FROM many",
    "SELECT m['b'] AS x, map_keys(m) AS k FROM (SELECT MAP {'a': 1, 'b': 2} AS m)",
    "FROM many SELECT n WHERE w GLOB 'x*' ORDER BY n",
    "SELECT round(1.15 * 3, 1)::VARCHAR AS x, concat(x, '|', p) AS y FROM many ORDER BY n, w",
]


@pytest.fixture(scope="module")
def vendor() -> Any:
    """Open the real DuckDB with the same tables."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(CREATE)
    connection.execute(NUMBERS)
    return connection


@pytest.mark.parametrize("sql", STATEMENTS)
def test_rows(session: Session, vendor: Any, sql: str) -> None:
    """The rows are those of the real DuckDB, in their order."""
    expected = [list(row) for row in vendor.execute(sql).fetchall()]
    assert [list(row.values()) for row in ask(session, sql, dialect="duckdb").rows] == expected


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COLUMNS('n.*') FROM many", "name each column"),
        ("SELECT * RENAME (n AS m) FROM many", "write SELECT \\* EXCLUDE"),
        ("SELECT a.n FROM many a POSITIONAL JOIN many b", "row_number"),
        ("SELECT n FROM many LIMIT 50%", "write a number of rows"),
        ("SELECT 1::BIT AS x", "write the bits"),
        ("SELECT w GLOB lower(w) FROM many", "text literal"),
    ],
)
def test_says_what_to_write(session: Session, sql: str, said: str) -> None:
    """A part without a counterpart has an error with the text to write."""
    with pytest.raises(FlightLLMError, match=said):
        ask(session, sql, dialect="duckdb")
