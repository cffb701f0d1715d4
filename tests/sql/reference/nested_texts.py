"""Texts of subqueries in subqueries, of one table at several levels, of LATERAL, and of queries around them."""

from collections.abc import Iterator
from itertools import product
from typing import Final

_DEEP: Final = (
    "SELECT y FROM b WHERE b.g = a.g AND b.y IN (SELECT c.y FROM c WHERE c.g = a.g)",
    "SELECT y FROM b WHERE b.g = a.g AND b.y NOT IN (SELECT c.y FROM c WHERE c.g = b.g AND c.y <> a.x)",
    "SELECT y FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.y >= b.y)",
    "SELECT y FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.y > b.y AND c.y > a.x)",
    "SELECT y FROM b WHERE y > ALL (SELECT c.y FROM c WHERE c.g < a.g)",
    "SELECT y FROM b WHERE y = (SELECT max(c.y) FROM c WHERE c.g = b.g AND c.y <= a.x)",
    "SELECT (SELECT count(*) FROM c WHERE c.g = a.g AND c.y = b.y) FROM b",
    "SELECT max(y) FROM b WHERE b.g = (SELECT min(c.g) FROM c WHERE c.y = a.x) GROUP BY g",
    "SELECT i.x FROM a i WHERE i.g = a.g AND EXISTS (SELECT 1 FROM a j WHERE j.g = i.g AND j.x > a.x)",
    "SELECT i.x FROM a i WHERE i.x < (SELECT max(j.x) FROM a j WHERE j.g = a.g)",
    "SELECT y FROM (SELECT y, g FROM b WHERE b.g = a.g UNION SELECT y, g FROM c WHERE c.g = a.g) u WHERE u.y > 1",
    "SELECT count(*) FROM (SELECT y FROM b WHERE b.g = a.g LIMIT 1) l",
    "SELECT y FROM b WHERE b.g = a.g INTERSECT SELECT y FROM c WHERE c.g <= a.g",
    "SELECT DISTINCT ON (g) y FROM c WHERE c.g <= a.g ORDER BY g, y DESC",
    "SELECT sum(y) OVER (ORDER BY y) FROM c WHERE c.g <= a.g",
    "SELECT count(*) FILTER (WHERE y > 1) FROM b WHERE b.g = a.g HAVING count(*) < 2",
    "SELECT y FROM b WHERE (b.y, b.g) IN (SELECT c.y, c.g FROM c WHERE c.g = a.g)",
    "SELECT y FROM e WHERE e.g = a.g",
    "SELECT count(*) FROM e WHERE e.g = a.g OR e.y IS NULL",
    "SELECT c.y FROM c, b WHERE c.g = b.g AND b.y = a.x",
    "SELECT c.y FROM c JOIN b USING (g) WHERE g = a.g",
    "VALUES (a.x), (a.g), (2)",
)  # fmt: skip
_PLACED: Final = (
    "SELECT x, g FROM a WHERE EXISTS ({})",
    "SELECT x, g FROM a WHERE NOT EXISTS ({}) OR x = 5",
    "SELECT x, g FROM a WHERE x IN ({})",
    "SELECT x, g, x NOT IN ({}) AS r FROM a",
    "SELECT x, g FROM a WHERE x <= ALL ({}) AND g < 3",
    "SELECT x, g, (SELECT count(*) FROM ({}) i(v) WHERE v > 1) AS r FROM a",
)  # fmt: skip
_LATERAL: Final = (
    "SELECT a.x, l.* FROM a, LATERAL ({}) l(v)",
    "SELECT * FROM a LEFT JOIN LATERAL ({}) l(v) ON v < 3",
)  # fmt: skip
_AROUND: Final = (
    "WITH w AS (SELECT x, g FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g = a.g)) SELECT count(*) AS n FROM w",
    "SELECT * FROM (SELECT x, EXISTS (SELECT count(*) FROM b WHERE b.g = a.g) AS r FROM a) i WHERE r",
    "SELECT x FROM a WHERE x > ANY (SELECT y FROM b) UNION SELECT y FROM b WHERE y > ALL (SELECT x FROM a WHERE g = 1)",
    "SELECT DISTINCT g, (SELECT count(*) FROM b WHERE b.g = a.g) AS n FROM a",
    "SELECT g, count(*) AS n FROM a GROUP BY g HAVING count(*) IN (SELECT y FROM c)",
    "SELECT g, count(*) AS n FROM a GROUP BY g HAVING count(*) NOT IN (SELECT y FROM b)",
    "SELECT g, count(*) AS n FROM a GROUP BY g HAVING max(x) >= ALL (SELECT y FROM c WHERE y < 3)",
    "SELECT g, count(*) AS n FROM a GROUP BY g HAVING g IN (SELECT y FROM c WHERE c.g = a.g)",
    "SELECT g, max(x) AS m FROM a GROUP BY g ORDER BY (SELECT count(*) FROM b WHERE b.g = a.g), g",
    "SELECT (SELECT count(*) FROM b WHERE b.g = a.g) AS k, count(*) AS n FROM a GROUP BY 1",
    "SELECT count(*) FILTER (WHERE x IN (SELECT y FROM b WHERE b.g = a.g)) AS n FROM a",
    "SELECT g, sum((SELECT max(y) FROM b WHERE b.g = a.g AND b.y <= a.x)) AS s FROM a GROUP BY g",
    "SELECT g, max(x) + (SELECT count(*) FROM c WHERE c.g = a.g) AS s FROM a GROUP BY g",
    "SELECT x, rank() OVER (ORDER BY (SELECT count(*) FROM b WHERE b.g = a.g)) AS r FROM a",
    "SELECT * FROM a JOIN b ON a.g = b.g AND b.y = ANY (SELECT c.y FROM c WHERE c.g = a.g)",
    "SELECT * FROM a JOIN b USING (g) WHERE EXISTS (SELECT 1 FROM c WHERE c.g = b.g AND c.y > a.x)",
    "SELECT * FROM a, b WHERE a.g = b.g AND a.x NOT IN (SELECT c.y FROM c WHERE c.g = b.g)",
    "SELECT * FROM a LEFT JOIN b ON a.g = b.g WHERE b.y IS NULL OR NOT EXISTS (SELECT 1 FROM c WHERE c.y = b.y)",
    "SELECT * FROM a LEFT JOIN b ON a.g = b.g AND b.y NOT IN (SELECT c.y FROM c WHERE c.g = b.g)",
    "SELECT * FROM a RIGHT JOIN b ON a.g = b.g AND a.x > (SELECT min(c.y) FROM c WHERE c.g = a.g)",
    "SELECT a.* FROM a FULL JOIN b ON a.g = b.g WHERE EXISTS (SELECT 1 FROM c WHERE c.g = b.g AND c.y <> a.x)",
    "SELECT x, CASE WHEN g = 1 THEN (SELECT y FROM c WHERE c.y = a.x AND c.g = 1) ELSE 0 END AS r FROM a",
    "SELECT x FROM a WHERE g = 2 AND (SELECT y FROM b WHERE b.g = a.g AND y < 2) IS NULL",
    "SELECT x FROM a WHERE x BETWEEN (SELECT min(y) FROM b WHERE b.g = a.g) AND (SELECT max(y) FROM b WHERE b.g = a.g)",
    "SELECT p.x FROM a p WHERE p.x < ANY (SELECT q.x FROM a q WHERE q.x < ALL (SELECT r.x FROM a r WHERE r.g = p.g))",
    "SELECT name FROM emp m WHERE EXISTS (SELECT 1 FROM emp WHERE boss = m.id AND id > ANY (SELECT id FROM emp))",
    "SELECT name FROM emp WHERE salary > (SELECT avg(salary) FROM emp i WHERE i.dept = emp.dept AND i.id <> emp.id)",
    "SELECT name, (SELECT name FROM emp i WHERE i.id = emp.boss) AS boss FROM emp",
    "SELECT dept, (SELECT name FROM emp WHERE dept = d.dept ORDER BY salary DESC, id LIMIT 1) AS r FROM dept d",
    "SELECT x FROM a WHERE (SELECT bool_or(y > a.x) FROM b WHERE b.g = a.g)",
    "SELECT x, ARRAY(SELECT y FROM b WHERE b.g = a.g AND y IS NOT NULL ORDER BY y DESC) AS r FROM a",
    "SELECT a.x, b.y FROM a, b WHERE a.g = b.g AND EXISTS (SELECT max(y) FROM c HAVING count(*) > a.x OR a.g IS NULL)",
    "SELECT a.x, b.y FROM a JOIN b ON a.g = b.g WHERE a.x = (SELECT max(c.y) FROM c WHERE c.g <= a.g)",
    "SELECT x FROM a WHERE x = (SELECT sum(y) FROM e WHERE e.y < a.x)",
    "SELECT a.x, l.y FROM a, LATERAL (SELECT y, g FROM b WHERE b.g = a.g LIMIT 2) l WHERE l.y = a.x",
    "SELECT a.x, b.y, l.n FROM a, b, LATERAL (SELECT count(*) AS n FROM c WHERE c.g = a.g) l WHERE a.g = b.g",
    "SELECT 1 AS r WHERE 3 NOT IN (SELECT y FROM b)",
    "SELECT 1 AS r WHERE 7 <> ALL (SELECT y FROM c WHERE y < 7)",
    "SELECT x FROM a WHERE NULL IN (SELECT y FROM e)",
    "SELECT x FROM a WHERE x + 1 IN (SELECT y + a.g FROM c) AND NOT (g IN (SELECT g FROM b WHERE b.y = a.x))",
    "SELECT x FROM a WHERE x IN (SELECT y FROM b WHERE b.g = a.g) IS NOT FALSE",
    "SELECT k FROM (SELECT x AS k, g AS m FROM a) o WHERE k IN (SELECT y FROM b WHERE b.g = m)",
    "SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.g = a.g LIMIT 1)",
    "SELECT x FROM a WHERE EXISTS (SELECT b.* FROM b JOIN c ON c.y = b.y WHERE b.g = a.g OR c.g = a.x)",
    "SELECT x FROM a WHERE x = (SELECT y FROM c WHERE c.g = a.g ORDER BY y LIMIT 1 OFFSET 1)",
)  # fmt: skip
_CHANGES: Final = (
    "DELETE FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g = a.g AND EXISTS (SELECT 1 FROM c WHERE c.g = a.g))",
    "DELETE FROM a WHERE EXISTS (SELECT 1 FROM a i WHERE i.g = a.g AND i.x > a.x)",
    "DELETE FROM a WHERE (x, g) IN (SELECT max(x), g FROM a GROUP BY g)",
    "UPDATE a SET x = (SELECT count(*) FROM a i WHERE i.g = a.g) WHERE x IS NULL OR x > ALL (SELECT y FROM e)",
    "UPDATE a SET g = CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.y = a.x) THEN 1 ELSE 0 END",
    "INSERT INTO e SELECT x, g FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.g = a.g)",
    "INSERT INTO e SELECT x, (SELECT max(y) FROM b WHERE b.y < a.x) FROM a",
)  # fmt: skip


def nested_subqueries() -> Iterator[str]:
    """Yield each deep subquery in several places and after LATERAL, then texts by hand and changes of rows."""
    for place, body in product((*_PLACED, *_LATERAL), _DEEP):
        yield place.format(body)
    yield from _AROUND
    yield from _CHANGES
