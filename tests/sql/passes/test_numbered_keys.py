"""A number in ORDER BY means an expression over groups, as in PostgreSQL."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open rows in two groups, with lists."""
    database = small_database(tmp_path_factory.mktemp("keys"))
    session = database.session()
    session.update(
        "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 1, [3, 1]), ('b', 2, [2]), ('b', 4, [9, 8])) AS v(k, n, l)"
    )
    yield session
    database.close()


@pytest.mark.parametrize("dialect", ["default", "postgres", "snowflake"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT k, count(*) + 1 FROM t GROUP BY k ORDER BY 2 DESC", [("b", 3), ("a", 2)]),
        ("SELECT k || '!', sum(n) * 2 FROM t GROUP BY k ORDER BY 2 DESC, 1", [("b!", 12), ("a!", 2)]),
        ("SELECT k || max(n) FROM t GROUP BY k HAVING count(*) > 0 ORDER BY 1", [("a1",), ("b4",)]),
        ("SELECT k AS x, count(*) * 2 FROM t GROUP BY k ORDER BY 2, x", [("a", 2), ("b", 4)]),
        (
            "SELECT s.*, n - 2 * count(*) FROM (SELECT k, -n AS m, n FROM t) s GROUP BY k, m, n ORDER BY 2",
            [("b", -4, 4, 2), ("b", -2, 2, 0), ("a", -1, 1, -1)],
        ),
    ],
)
def test_numbers(session: Session, dialect: str, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """The rows are in the order of the column that the number means."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]
    assert found == rows


@pytest.mark.parametrize("dialect", ["default", "postgres", "duckdb"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT unnest(l) AS e FROM t ORDER BY n DESC, e", [(8,), (9,), (2,), (1,), (3,)]),
        ("SELECT k, unnest(l) FROM t ORDER BY t.n, 2", [("a", 1), ("a", 3), ("b", 2), ("b", 8), ("b", 9)]),
        ("SELECT x.*, unnest(l) FROM (SELECT n, l FROM t WHERE n = 2) x ORDER BY n", [(2, [2], 2)]),
        ("SELECT unnest(l) AS e FROM t ORDER BY n + 1, 1 LIMIT 2", [(1,), (3,)]),
    ],
)
def test_rows_of_lists(session: Session, dialect: str, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """ORDER BY reads columns that are not in SELECT beside `unnest`."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]
    assert found == rows


def test_matches_in_the_order_of_a_column(session: Session) -> None:
    """`regexp_matches` in SELECT can be ordered by a column of the table."""
    sql = "SELECT regexp_matches(k || n, '[a-z0-9]', 'g') AS m FROM t ORDER BY n DESC LIMIT 1"
    assert ask(session, sql, dialect="postgres").rows in ([{"m": ["b"]}], [{"m": ["4"]}])
