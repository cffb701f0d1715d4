"""Names for the columns of queries whose rows go by position."""

import pytest

from flightllm.sql.unique_names import with_unique_names


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT a, 0, 0 FROM t", 'SELECT a AS "column 1", 0 AS "column 2", 0 AS "column 3" FROM t'),
        ("SELECT a AS x, b y, t.*, f(c) FROM t", 'SELECT a AS x, b y, t.*, f(c) AS "column 1" FROM t'),
        (
            "SELECT x::int, a IS NULL, NOT b",
            'SELECT x::int AS "column 1", a IS NULL AS "column 2", NOT b AS "column 3"',
        ),
        ("SELECT CASE WHEN a THEN b END, c", 'SELECT CASE WHEN a THEN b END AS "column 1", c AS "column 2"'),
        ("SELECT 1, (SELECT 2, 2)", 'SELECT 1 AS "column 1", (SELECT 2, 2) AS "column 2"'),
        ("(SELECT 1, 1)", '(SELECT 1 AS "column 1", 1 AS "column 2")'),
        ("SELECT 1 UNION ALL (SELECT 2)", 'SELECT 1 AS "column 1" UNION ALL (SELECT 2 AS "column 2")'),
        ("WITH q AS (SELECT 1, 1) SELECT x FROM q", 'WITH q AS (SELECT 1, 1) SELECT x AS "column 1" FROM q'),
        (
            "SELECT DISTINCT a, a FROM (SELECT 1) s",
            'SELECT DISTINCT a AS "column 1", a AS "column 2" FROM (SELECT 1) s',
        ),
        ("VALUES (1, 1)", "VALUES (1, 1)"),
    ],
)
def test_named(query: str, named: str) -> None:
    """Expressions without alias get one, in each SELECT whose rows are the query's; nothing else changes."""
    assert with_unique_names(query) == named
