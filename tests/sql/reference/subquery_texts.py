"""Texts of subqueries: what is asked of one × what it contains × where it is."""

from collections.abc import Iterator
from itertools import product
from typing import Final

ASKED: Final = (
    "EXISTS ({e})", "NOT EXISTS ({e})", "x IN ({s})", "x NOT IN ({s})", "x = ANY ({s})", "x <> ALL ({s})",
    "x < ANY ({s})", "x >= ALL ({s})", "x <> ANY ({s})", "x = ALL ({s})", "3 NOT IN ({s})",
)  # fmt: skip
"""Questions about a subquery of one column; `{e}` is it without ORDER BY's need of a column."""
_ONE: Final = ("x = ({s})", "x < ({s})", "({s}) IS NULL")
"""Questions about a subquery of at most one row."""
_MANY_ROWS: Final = {
    "other": "SELECT y FROM b",
    "no NULL": "SELECT y FROM c",
    "empty": "SELECT y FROM e",
    "same table": "SELECT x FROM a WHERE x < 3",
    "same table, whole": "SELECT x FROM a",
    "same table, aliased": "SELECT i.x FROM a i WHERE i.g = 1",
    "correlated": "SELECT y FROM b WHERE b.g = a.g",
    "correlated, no NULL": "SELECT y FROM c WHERE c.g = a.g",
    "correlated, same table": "SELECT i.x FROM a i WHERE i.g = a.g AND i.x <> a.x",
    "correlated, less": "SELECT y FROM b WHERE b.y < a.x",
    "correlated, or": "SELECT y FROM b WHERE b.g = a.g OR b.y = 6",
    "correlated, null-safe": "SELECT y FROM b WHERE b.g IS NOT DISTINCT FROM a.g",
    "correlated in select": "SELECT y + a.g FROM c",
    "correlated, never": "SELECT y FROM b WHERE b.g = a.g AND 1 = 0",
    "only outer": "SELECT y FROM c WHERE a.x > 2",
    "grouped": "SELECT max(y) FROM b GROUP BY g",
    "grouped, correlated": "SELECT max(y) FROM b WHERE b.g = a.g GROUP BY g",
    "having": "SELECT g FROM b GROUP BY g HAVING count(*) > 1",
    "having, correlated": "SELECT max(y) FROM c WHERE c.g <= a.g GROUP BY g HAVING count(*) >= 1",
    "count of few": "SELECT count(*) FROM b WHERE b.g = a.g",
    "limit": "SELECT y FROM c ORDER BY y LIMIT 2",
    "limit, correlated": "SELECT y FROM c WHERE c.g = a.g ORDER BY y LIMIT 1",
    "limit 0": "SELECT y FROM c LIMIT 0",
    "offset, correlated": "SELECT y FROM c WHERE c.g <= a.g ORDER BY y OFFSET 1",
    "distinct": "SELECT DISTINCT y FROM b WHERE b.g = a.g",
    "union": "SELECT y FROM b UNION SELECT y FROM c",
    "union, correlated": "SELECT y FROM b WHERE b.g = a.g UNION ALL SELECT y FROM c WHERE c.g = a.g",
    "except": "SELECT y FROM c EXCEPT SELECT y FROM b",
    "window": "SELECT max(y) OVER (PARTITION BY g) FROM c",
    "window, correlated": "SELECT rank() OVER (ORDER BY y) FROM c WHERE c.g = a.g",
    "join": "SELECT c.y FROM c JOIN b ON b.g = c.g",
    "join, correlated": "SELECT c.y FROM c LEFT JOIN b ON b.y = c.y AND b.g = a.g",
    "nested": "SELECT y FROM c WHERE g IN (SELECT g FROM b WHERE y > 1)",
    "nested, correlated twice": "SELECT y FROM c WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g AND b.y = c.y)",
    "from a subquery": "SELECT y FROM (SELECT y, g FROM b) i WHERE i.g = a.g",
    "values": "VALUES (1), (3), (NULL)",
    "with": "WITH w AS (SELECT y FROM c WHERE y > 1) SELECT y FROM w",
    "with, correlated": "WITH w AS (SELECT y, g FROM c) SELECT y FROM w WHERE w.g = a.g",
    "no table": "SELECT 2",
    "outer value": "SELECT a.g",
    "NULL": "SELECT CAST(NULL AS int)",
}  # fmt: skip
_ONE_ROW: Final = {
    "max": "SELECT max(y) FROM b",
    "max of none": "SELECT max(y) FROM e",
    "count of none": "SELECT count(*) FROM e",
    "count, correlated": "SELECT count(*) FROM b WHERE b.g = a.g",
    "count of values, correlated": "SELECT count(y) FROM b WHERE b.g = a.g",
    "sum, correlated": "SELECT sum(y) FROM b WHERE b.g = a.g",
    "min, same table": "SELECT min(x) FROM a",
    "min, correlated, same table": "SELECT min(i.x) FROM a i WHERE i.g = a.g",
    "avg, correlated, less": "SELECT avg(y) FROM c WHERE c.y < a.x",
    "first, correlated": "SELECT y FROM c WHERE c.g = a.g ORDER BY y LIMIT 1",
    "first": "SELECT y FROM c ORDER BY y DESC LIMIT 1",
    "first of group": "SELECT max(y) FROM c WHERE c.g = a.g GROUP BY c.g",
    "count and 1": "SELECT count(*) + 1 FROM b WHERE b.g = a.g",
    "coalesce": "SELECT coalesce(max(y), 0) FROM b WHERE b.g = a.g",
    "count having": "SELECT count(*) FROM b WHERE b.g = a.g HAVING count(*) > 1",
    "one key": "SELECT g FROM c WHERE c.y = 5 AND a.x > 1",
    "none": "SELECT y FROM c WHERE y > 100",
    "outer in aggregate": "SELECT max(c.y + a.x) FROM c WHERE c.g = a.g",
    "two levels": "SELECT max(y) FROM c WHERE c.g = (SELECT min(b.g) FROM b WHERE b.y = a.x)",
    "count distinct": "SELECT count(DISTINCT y) FROM b WHERE b.g = a.g",
    "no table": "SELECT a.x + 1",
}  # fmt: skip
_CONDITION_PLACES: Final = {
    "not": "SELECT x, g FROM a WHERE NOT ({})",
    "or": "SELECT x, g FROM a WHERE {} OR x > 4",
    "or first": "SELECT x, g FROM a WHERE g = 3 OR {}",
    "and": "SELECT x, g FROM a WHERE x > 1 AND {}",
    "not and": "SELECT x, g FROM a WHERE NOT (x > 1 AND {})",
    "case": "SELECT x, g, CASE WHEN {} THEN 'yes' ELSE 'no' END AS r FROM a",
    "case in where": "SELECT x, g FROM a WHERE CASE WHEN g = 1 THEN {} ELSE x = 3 END",
    "is null": "SELECT x, g FROM a WHERE ({}) IS NULL",
    "coalesce": "SELECT x, g FROM a WHERE coalesce({}, true)",
    "compared": "SELECT x, g FROM a WHERE ({}) = (x > 1)",
    "having": "SELECT x, g, count(*) AS n FROM a GROUP BY x, g HAVING {}",
    "group": "SELECT r, count(*) AS n FROM (SELECT {} AS r FROM a) i GROUP BY r",
    "on": "SELECT a.x, a.g, d.z FROM a JOIN (VALUES (1), (2)) d(z) ON a.x >= d.z AND {}",
    "on of left": "SELECT a.x, a.g, d.z FROM a LEFT JOIN (VALUES (1), (2)) d(z) ON a.x = d.z AND {}",
    "filter": "SELECT count(*) FILTER (WHERE r) AS n FROM (SELECT {} AS r FROM a) i",
    "order": "SELECT x, g FROM a ORDER BY {}, x, g",
    "twice": "SELECT x, g FROM a WHERE {0} AND {0}",
    "limited": "SELECT x, g FROM a WHERE {} ORDER BY x, g LIMIT 3",
    "joined": "SELECT a.x, a.g, f.y AS fy FROM a JOIN c f ON f.g = a.g WHERE {}",
    "after left": "SELECT a.x, a.g, f.y AS fy FROM a LEFT JOIN c f ON f.g = a.g WHERE {}",
}  # fmt: skip
_VALUE_PLACES: Final = {
    "plus": "SELECT x, g, ({}) + 1 AS r FROM a",
    "coalesce": "SELECT x, g, coalesce(({}), 9) AS r FROM a",
    "case": "SELECT x, g, CASE WHEN x > 1 THEN ({}) END AS r FROM a",
    "order": "SELECT x, g FROM a ORDER BY ({}), x, g",
    "twice": "SELECT x, ({0}) AS r, ({0}) AS s FROM a",
    "having": "SELECT x, g, count(*) AS n FROM a GROUP BY x, g HAVING count(*) <= ({})",
    "between": "SELECT x, g FROM a WHERE x BETWEEN 1 AND ({})",
    "in list": "SELECT x, g FROM a WHERE x IN (1, ({}))",
    "on": "SELECT a.x, d.z FROM a LEFT JOIN (VALUES (1), (2)) d(z) ON d.z = ({})",
    "argument": "SELECT x, g, sum(r) OVER (PARTITION BY g) AS s FROM (SELECT x, g, ({}) AS r FROM a) i",
    "concatenated": "SELECT x, 'is ' || ({}) AS r FROM a",
}  # fmt: skip
_FEW_MANY: Final = (
    "other", "no NULL", "same table", "correlated", "correlated, same table", "grouped, correlated", "count of few",
    "limit, correlated", "union, correlated",
)  # fmt: skip
_FEW_ONE: Final = ("max", "count, correlated", "sum, correlated", "first, correlated", "min, same table", "no table")
_FEW_ASKED: Final = ("EXISTS ({e})", "NOT EXISTS ({e})", "x IN ({s})", "x NOT IN ({s})", "x < ANY ({s})")
_ROWS: Final = (
    "SELECT x, g FROM a WHERE (x, g) IN (SELECT y, g FROM b)",
    "SELECT x, g FROM a WHERE (x, g) NOT IN (SELECT y, g FROM b)",
    "SELECT x, g FROM a WHERE (x, g) NOT IN (SELECT y, g FROM c)",
    "SELECT x, g, (x, g) IN (SELECT y, g FROM c) AS r FROM a",
    "SELECT x, g FROM a WHERE (x, 1) IN (SELECT y, g FROM c)",
    "SELECT x, g FROM a WHERE (x, g) = ANY (SELECT y, g FROM c)",
    "SELECT x, g FROM a WHERE (x, g) = (SELECT y, g FROM c WHERE y = 5)",
    "SELECT x, g FROM a WHERE (x, g) <> ALL (SELECT y, g FROM c)",
    "SELECT x, g FROM a WHERE (x, g) IN ((1, 1), (2, 2))",
    "SELECT x, g FROM a WHERE (x, g) NOT IN ((1, 1), (2, 2))",
    "SELECT x, g FROM a WHERE (x, g) IN ((1, 1), (2, NULL))",
    "SELECT x, g FROM a WHERE (x, g) NOT IN ((1, 1), (2, NULL))",
    "SELECT x, g FROM a WHERE (x, g) = (1, 1)",
    "SELECT x, g FROM a WHERE (x, g) <> (1, 1)",
    "SELECT x, g FROM a WHERE (x, g) < (2, 2)",
    "SELECT x, g FROM a WHERE (x, g) >= (2, 2)",
    "SELECT x, g FROM a WHERE ROW(x, g) IS DISTINCT FROM ROW(1, 1)",
    "SELECT x, g FROM a WHERE (x, g) IN (SELECT c.y, c.g FROM c WHERE c.g = a.g)",
    "SELECT x FROM a WHERE x = ANY (ARRAY[1, 3])",
    "SELECT x FROM a WHERE x <> ALL (ARRAY[1, 3])",
    "SELECT x FROM a WHERE x = ANY (ARRAY[1, NULL])",
    "SELECT x FROM a WHERE x <> ALL (ARRAY[1, NULL])",
    "SELECT id FROM lists WHERE 3 = ANY (l)",
    "SELECT id FROM lists WHERE 3 <> ALL (l)",
    "SELECT x FROM a WHERE x > ANY (ARRAY[1, 3])",
    "SELECT x FROM a WHERE (SELECT y FROM c) = 1",
    "SELECT x, (SELECT y FROM c WHERE c.g = a.g) AS r FROM a",
    "SELECT ARRAY(SELECT y FROM c ORDER BY y) AS r",
    "SELECT x, ARRAY(SELECT y FROM c WHERE c.g = a.g ORDER BY y) AS r FROM a",
    "SELECT (SELECT 1) AS a, (SELECT NULL) AS b, EXISTS (SELECT 1 WHERE false) AS c, 1 IN (SELECT 1) AS d",
    "SELECT count(*), (SELECT count(*) FROM b) FROM a",
    "SELECT max(x) AS m, (SELECT max(y) FROM b) AS n FROM a",
    "SELECT g, max(x) AS m, (SELECT max(y) FROM b WHERE b.g = a.g) AS n FROM a GROUP BY g",
    "SELECT sum((SELECT max(y) FROM b WHERE b.g = a.g)) AS s FROM a",
    "SELECT x FROM a WHERE x IN (1, 2) AND x IN (SELECT y FROM c WHERE y IN (2, 5))",
    "SELECT s FROM (VALUES (1), (2), (3)) v(s) WHERE s = ANY (SELECT s FROM (VALUES (1)) w(s))",
    "WITH q(s) AS (VALUES (1), (2), (3)) SELECT s FROM q WHERE s = ANY (SELECT s FROM q WHERE s < 2)",
    "WITH q(s) AS (VALUES (1), (2), (3)) SELECT s FROM q WHERE s IN (SELECT s FROM q WHERE s < 2)",
    "WITH q(s) AS (VALUES (1), (2), (3)) SELECT s FROM q WHERE EXISTS (SELECT s FROM q WHERE s > 5)",
    "WITH q(s) AS (VALUES (1), (2), (3)) SELECT s FROM q WHERE s >= ALL (SELECT s FROM q)",
    "WITH q(s) AS (VALUES (1), (2), (NULL)) SELECT s FROM q WHERE s NOT IN (SELECT s FROM q WHERE s < 2)",
    "SELECT name FROM emp WHERE salary > (SELECT avg(salary) FROM emp)",
    "SELECT name FROM emp WHERE salary = ANY (SELECT salary FROM emp WHERE dept = 'eng')",
    "SELECT name FROM emp WHERE salary IN (SELECT salary FROM emp WHERE dept = 'eng')",
    "SELECT name FROM emp m WHERE EXISTS (SELECT 1 FROM emp WHERE boss = m.id)",
    "SELECT name FROM emp WHERE EXISTS (SELECT 1 FROM emp i WHERE i.boss = emp.id)",
    "SELECT name FROM emp m WHERE salary = (SELECT max(salary) FROM emp WHERE dept = m.dept)",
    "SELECT name FROM emp m WHERE salary >= ALL (SELECT salary FROM emp WHERE dept = m.dept)",
    "SELECT name FROM emp m WHERE (SELECT count(*) FROM emp WHERE dept = m.dept) > 1",
    "SELECT name FROM emp m WHERE (SELECT count(*) FROM emp WHERE dept = m.dept AND salary > m.salary) < 2",
    "SELECT name FROM emp m WHERE dept NOT IN (SELECT dept FROM dept WHERE city = 'Oslo')",
    "SELECT name FROM emp m WHERE dept NOT IN (SELECT dept FROM dept)",
    "SELECT dept FROM dept d WHERE NOT EXISTS (SELECT 1 FROM emp WHERE emp.dept = d.dept)",
    "SELECT dept, (SELECT string_agg(name, ',' ORDER BY name) FROM emp WHERE emp.dept = d.dept) AS r FROM dept d",
    "SELECT name, (SELECT city FROM dept WHERE dept.dept = emp.dept) AS city FROM emp",
)  # fmt: skip


def subqueries() -> Iterator[str]:
    """Yield each question about each subquery in WHERE, and about rows and arrays."""
    for asked, body in product(ASKED, _MANY_ROWS.values()):
        yield f"SELECT x, g FROM a WHERE {asked.format(e=body, s=body)}"
    for asked, body in product(_ONE, _ONE_ROW.values()):
        yield f"SELECT x, g FROM a WHERE {asked.format(s=body)}"
    for body in _ONE_ROW.values():
        yield f"SELECT x, g, ({body}) AS r FROM a"
    yield from _ROWS


def placed_subqueries() -> Iterator[str]:
    """Yield some subqueries in every place where a condition or a value can be, and the others as a column."""
    for asked, body in product(ASKED, _MANY_ROWS.values()):
        if asked in _FEW_ASKED:
            yield f"SELECT x, g, {asked.format(e=body, s=body)} AS r FROM a"
    for place, asked, body in product(_CONDITION_PLACES.values(), _FEW_ASKED, _FEW_MANY):
        sql = _MANY_ROWS[body]
        yield place.format(asked.format(e=sql, s=sql))
    for place, body in product(_VALUE_PLACES.values(), _FEW_ONE):
        yield place.format(_ONE_ROW[body])
    for place, asked, body in product(_CONDITION_PLACES.values(), ("x = ({s})",), _FEW_ONE):
        yield place.format(asked.format(s=_ONE_ROW[body]))


def changes() -> Iterator[str]:
    """Yield DELETE and UPDATE of rows that a question about a subquery finds."""
    for asked, body in product(ASKED, _FEW_MANY):
        yield f"DELETE FROM a WHERE {asked.format(e=_MANY_ROWS[body], s=_MANY_ROWS[body])}"
    for asked, body in product(_FEW_ASKED, ("other", "same table", "correlated", "count of few", "limit, correlated")):
        yield f"UPDATE a SET x = -1 WHERE {asked.format(e=_MANY_ROWS[body], s=_MANY_ROWS[body])} RETURNING x, g"
    for body in _ONE_ROW.values():
        yield f"UPDATE a SET x = ({body}) WHERE g < 3"
        yield f"DELETE FROM a WHERE x <= ({body})"
