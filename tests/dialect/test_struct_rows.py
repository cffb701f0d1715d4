"""Rows of a list of structs, beside the columns of the table that has the list."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.session.session import Session
from tests.databases import ask, small_database

_LISTS = (
    "SELECT 1 AS id, make_array(named_struct('c', 1, 'd', 'x'), named_struct('c', 2, 'd', NULL)) AS b"
    " UNION ALL SELECT 2, make_array(named_struct('c', 1, 'd', 'x'), named_struct('c', 2, 'd', NULL))"
    " UNION ALL SELECT 3, NULL"
    " UNION ALL SELECT 4, make_array(named_struct('c', NULL, 'd', '''\"'))"
)
_ALL = [(1, 1, "x"), (1, 2, None), (2, 1, "x"), (2, 2, None), (4, None, "'\"")]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table of lists: two equal ones, NULL, and one with NULL in a struct."""
    database = small_database(tmp_path_factory.mktemp("structs"))
    session = database.session()
    session.update(f"CREATE TABLE lists AS {_LISTS}")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("dialect", "sql", "rows"),
    [
        ("bigquery", "SELECT id, x.c, x.d FROM lists, UNNEST(lists.b) AS x ORDER BY id, 2", _ALL),
        ("bigquery", "SELECT id, x.c, x.d FROM lists CROSS JOIN UNNEST(b) AS x WITH OFFSET AS o ORDER BY id, o", _ALL),
        (
            "bigquery",
            "SELECT id, x.c FROM lists LEFT JOIN UNNEST(b) AS x ORDER BY id, 2",
            [(1, 1), (1, 2), (2, 1), (2, 2), (3, None), (4, None)],
        ),
        (
            "bigquery",
            "SELECT id, ARRAY(SELECT x.c FROM UNNEST(b) AS x WHERE x.c > 1) AS n FROM lists ORDER BY id",
            [(1, [2]), (2, [2]), (3, []), (4, [])],
        ),
        (
            "bigquery",
            "SELECT id FROM lists WHERE EXISTS(SELECT 1 FROM UNNEST(b) AS x WHERE x.d = 'x') ORDER BY id",
            [(1,), (2,)],
        ),
        (
            "bigquery",
            "SELECT id, y FROM lists, UNNEST(b) AS p, UNNEST([p.c, p.c + 5]) AS y WHERE id = 1 ORDER BY y",
            [(1, 1), (1, 2), (1, 6), (1, 7)],
        ),
        (
            "bigquery",
            "SELECT s.id, x.c FROM (SELECT 1 AS id, [STRUCT(1 AS c), (2)] AS b) s, UNNEST(s.b) AS x ORDER BY 2",
            [(1, 1), (1, 2)],
        ),
        ("databricks", "SELECT id, x.c, x.d FROM lists LATERAL VIEW explode(b) v AS x ORDER BY id, 2", _ALL),
        (
            "spark",
            "SELECT id, i, x.c FROM lists LATERAL VIEW OUTER posexplode(b) v AS i, x WHERE id > 1 ORDER BY id, i",
            [(2, 0, 1), (2, 1, 2), (3, None, None), (4, 0, None)],
        ),
    ],
)
def test_rows(session: Session, dialect: str, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Each element is a row with the columns of its own table's row."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]
    assert found == rows
