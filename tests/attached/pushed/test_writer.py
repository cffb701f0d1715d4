"""Queries over attached tables give the rows that they give over copies, and that PostgreSQL itself gives."""

import re
from decimal import Decimal
from typing import Any

import pytest

from flightllm.errors import SqlError
from tests.attached.pushed.conftest import Sources
from tests.databases import rows

_TABLE = re.compile(r"\b(from|join) ([tu])\b", re.IGNORECASE)

WHOLE = [
    "SELECT count(*) AS n FROM t",
    "SELECT count(i) AS a, count(DISTINCT s) AS b, sum(i) AS c, min(s) AS d, max(s) AS e FROM t",
    "SELECT avg(f) AS a, sum(f) AS b, avg(z) AS c, sum(z) AS d, min(d) AS e, max(z) AS g FROM t",
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s",
    "SELECT b, sum(z) FILTER (WHERE i > 0) AS z, sum(DISTINCT i) AS i FROM t GROUP BY b ORDER BY b",
    "SELECT i, s FROM t ORDER BY s DESC NULLS LAST, i LIMIT 3",
    "SELECT i, s FROM t ORDER BY s, i LIMIT 3 OFFSET 2",
    "SELECT i FROM t ORDER BY b, i DESC, f LIMIT 3",
    "SELECT DISTINCT s FROM t ORDER BY s DESC",
    "SELECT t.i, u.s FROM t LEFT JOIN u ON t.i = u.i ORDER BY t.i, u.s, t.f",
    "SELECT t.i, u.i AS j FROM t FULL JOIN u ON t.i = u.i AND t.s = u.s ORDER BY 1, 2, t.f",
    "SELECT t.i, u.i AS j FROM t JOIN u ON t.b = u.b AND t.i < u.i ORDER BY 1, 2",
    "SELECT t.s, count(*) AS n FROM t JOIN u ON t.s = u.s GROUP BY t.s ORDER BY t.s",
    "SELECT i FROM t WHERE i IN (SELECT i FROM u) ORDER BY i, f",
    "SELECT i FROM t WHERE i NOT IN (SELECT i FROM u WHERE i IS NOT NULL) ORDER BY i",
    "SELECT i FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.i = t.i) ORDER BY i",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.s = t.s AND u.i <> t.i) ORDER BY i",
    "SELECT i FROM t WHERE i > (SELECT avg(i) FROM u) ORDER BY i",
    "SELECT i, (SELECT max(u.i) FROM u WHERE u.b = t.b) AS m FROM t ORDER BY i, f",
    "SELECT max(i) AS m FROM (SELECT i, s FROM t ORDER BY s LIMIT 3) AS q",
    "SELECT i FROM (SELECT i, s FROM t ORDER BY i LIMIT 4) AS q WHERE s IS NOT NULL ORDER BY i",
    "SELECT s FROM t WHERE s > 'B' AND s <= 'ä' ORDER BY s",
    "SELECT count(*) AS n FROM t WHERE s = 'A'",
    "SELECT count(*) AS n FROM t WHERE s IN ('A', 'b', 'ä')",
    "SELECT s FROM t WHERE s LIKE 'a%' ORDER BY s",
    "SELECT s FROM t WHERE s LIKE '_' ORDER BY s",
    "SELECT count(*) AS n FROM t WHERE s IS NULL OR b",
    "SELECT CASE WHEN s LIKE 'a%' THEN 1 ELSE 0 END AS x, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
    "SELECT coalesce(s, 'none') AS s, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
    "SELECT nullif(s, 'a') AS s FROM t ORDER BY 1 LIMIT 9",
    "SELECT d, extract(year FROM d) AS y, count(*) AS n FROM t GROUP BY d ORDER BY d",
    "SELECT i FROM t WHERE d BETWEEN date '1960-01-01' AND date '2021-01-01' ORDER BY i, f LIMIT 9",
    "SELECT sum(z * (1 - z)) AS a, sum(z * z) AS b, sum(z / 3) AS c FROM t",
    "SELECT z / 7 AS q, i FROM t WHERE z <> 0 ORDER BY q, i LIMIT 9",
    "SELECT b, count(*) AS n FROM t GROUP BY b HAVING count(*) > 1 ORDER BY b",
    "SELECT i FROM t UNION ALL SELECT i FROM u ORDER BY 1",
    "SELECT s FROM t UNION SELECT s FROM u ORDER BY 1",
    "SELECT substring(s FROM 1 FOR 1) AS c, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
    "WITH q AS (SELECT b, sum(z) AS z FROM t GROUP BY b) SELECT x.b, y.z FROM q x JOIN q y ON x.b = y.b ORDER BY 1",
    "SELECT i, m FROM t ORDER BY i, f LIMIT 4",
    "SELECT a.i FROM t AS a JOIN t AS c ON a.i = c.i JOIN u ON u.i = c.i ORDER BY 1",
    "SELECT h.s, avg(z) AS a FROM (SELECT s, z * 10000 AS z FROM t) AS h GROUP BY h.s ORDER BY 1",
    "SELECT true AS y, count(*) AS n FROM t GROUP BY i, b IS NULL ORDER BY n, i LIMIT 3",
    "SELECT CASE WHEN t.b THEN t.d END AS d, CAST(NULL AS int) AS y FROM t JOIN u ON t.i = u.i ORDER BY 1",
    "SELECT i FROM t WHERE false",
    "SELECT i FROM t ORDER BY i LIMIT 0",
]
"""Queries that go out as one statement."""
PARTS = [
    "SELECT i, row_number() OVER (ORDER BY i, f) AS n FROM t ORDER BY 2",
    "SELECT upper(s) AS u, count(*) AS n FROM t GROUP BY upper(s) ORDER BY 1",
    "SELECT m, count(*) AS n FROM t GROUP BY m ORDER BY m",
    "SELECT max(m) AS m FROM t",
    "SELECT i FROM t EXCEPT SELECT i FROM u ORDER BY 1",
    "SELECT i FROM t INTERSECT SELECT i FROM u ORDER BY 1",
    "SELECT i FROM t WHERE i NOT IN (SELECT i FROM u)",
    "SELECT count(*) AS n FROM t CROSS JOIN u",
    "SELECT t.i, u.i AS j FROM t JOIN u ON t.i < u.i ORDER BY 1, 2, t.f",
    "SELECT s || 'x' AS y, count(*) AS n FROM t JOIN u USING (s) GROUP BY s ORDER BY 1",
    "SELECT b, s, count(*) AS n FROM t GROUP BY GROUPING SETS ((b), (s)) ORDER BY 1, 2",
    "SELECT i % 3 AS r, i / 2 AS h, abs(i) AS a FROM t WHERE i IN (SELECT i FROM u) ORDER BY 2",
    "SELECT var_pop(f) AS v FROM t JOIN u USING (i, f)",
    "SELECT extract(day FROM q.d) AS y FROM (SELECT * FROM t WHERE i > NULL) q JOIN u ON q.i = u.i GROUP BY 1",
    "SELECT i % 3 AS k, count(DISTINCT b) FROM t CROSS JOIN (SELECT 1 FROM u WHERE f < z) AS q GROUP BY 1 ORDER BY 1",
    "SELECT t.i FROM t RIGHT JOIN (SELECT * FROM u WHERE f IN (NULL, 3)) AS q ON t.i = q.i ORDER BY 1",
    "SELECT count(*) AS n FROM t JOIN u USING (i) GROUP BY true",
    "SELECT count(*) AS n FROM t WHERE d + interval '1 month' > date '2020-03-01' AND EXISTS (SELECT 1 FROM u)",
    "SELECT i FROM t WHERE s LIKE 'O\\_%' OR s = '\\' ORDER BY i",
    "SELECT CAST(f AS int) AS k, count(*) AS n FROM t WHERE f < 100 GROUP BY 1 ORDER BY 1",
]
"""Queries of which a part runs here."""


def _over(text: str, database: str) -> str:
    return _TABLE.sub(rf"\1 {database}.\2", text)


def _plain(found: list[dict[str, Any]], digits: int = 12) -> list[tuple[Any, ...]]:
    """Return the rows with numbers to some digits: floats are added in any order."""

    def value(one: Any) -> Any:
        return float(f"{float(one):.{digits}g}") if isinstance(one, float | Decimal | int) and one is not True else one

    return [tuple(map(value, row.values())) for row in found]


@pytest.mark.parametrize("text", [*WHOLE, *PARTS])
@pytest.mark.parametrize("source", ["pg", "dd"])
def test_rows(sources: Sources, text: str, source: str) -> None:
    """The rows equal those over copies, with the types of the copies, in the same order."""
    session = sources.session
    wanted, found = rows(session, text), rows(session, _over(text, source))
    assert _plain(found) == _plain(wanted)
    kinds = [[type(one) for one in row.values()] for row in found]
    assert kinds == [[type(one) for one in row.values()] for row in wanted]


@pytest.mark.parametrize("text", WHOLE)
def test_postgresql_gives_the_same_rows(sources: Sources, text: str) -> None:
    """PostgreSQL, asked for the same text, gives the same rows; its averages have more digits."""
    found = _plain(rows(sources.session, _over(text, "pg")), 7)
    asked = sources.connection.execute(_over(text, "plain"))
    assert found == _plain([{str(at): one for at, one in enumerate(row)} for row in asked.fetchall()], 7)


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize("source", ["pg", "dd"])
def test_one_statement(sources: Sources, text: str, source: str) -> None:
    """The whole query is one statement at the source."""
    plan = [tuple(row.values()) for row in rows(sources.session, f"EXPLAIN {_over(text, source)}")]
    assert [title for title, _ in plan if title.startswith("sent to")] == (
        [] if text.endswith(("false", "LIMIT 0")) else [f"sent to {source}"]
    )


@pytest.mark.parametrize("source", ["pg", "dd"])
def test_errors_are_those_of_copies(sources: Sources, source: str) -> None:
    """An error of a value stays an error."""
    with pytest.raises(SqlError):
        rows(sources.session, _over("SELECT sum(i) * 100000 AS n FROM t JOIN u USING (b)", source))
