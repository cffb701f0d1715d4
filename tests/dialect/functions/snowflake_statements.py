"""Whole statements of Snowflake, with the rows of its documentation."""

from datetime import date
from typing import Any, Final

EMPLOYEES: Final = (
    "CREATE OR REPLACE TABLE emp (id INT, name VARCHAR, dept VARCHAR, sal NUMBER(10,2), mgr INT)",
    "INSERT INTO emp VALUES (1,'Ann','a',100,NULL),(2,'Bob','a',300,1),(3,'Cat','b',200,1),(4,'Dan','b',NULL,2),(5,'Eve',NULL,50,2)",
)
STATEMENTS: Final[list[tuple[list[str], Any]]] = [
    (["SET x = 5", "SELECT $x + 1 AS a"], [(6,)]),
    (["SET (x, y) = (3, 'q')", "SELECT $x AS a, $y AS b"], [(3, "q")]),
    (["SET who = 'Ann'", "SELECT id FROM emp WHERE name = $who"], [(1,)]),
    (["SET lim = (SELECT MAX(id) FROM emp)", "SELECT $lim AS m"], [(5,)]),
    (["SET tab = 'emp'", "SELECT COUNT(*) AS n FROM IDENTIFIER($tab)"], [(5,)]),
    (["SELECT COUNT(*) AS n FROM IDENTIFIER('emp')"], [(5,)]),
    (["SET col = 'name'", "SELECT IDENTIFIER($col) AS v FROM emp WHERE id = 1"], [("Ann",)]),
    (["SET x = 1", "UNSET x", "SELECT $x"], "!"),
    (["SELECT COUNT(*) AS n FROM emp SAMPLE (100)"], [(5,)]),
    (["SELECT COUNT(*) AS n FROM emp SAMPLE (3 ROWS)"], [(3,)]),
    (["SELECT COUNT(*) AS n FROM emp TABLESAMPLE BERNOULLI (0)"], [(0,)]),
    (["SELECT SEQ4() AS n FROM TABLE(GENERATOR(ROWCOUNT => 3)) ORDER BY 1"], [(0,), (1,), (2,)]),
    (
        ["SELECT ROW_NUMBER() OVER (ORDER BY SEQ4()) AS n FROM TABLE(GENERATOR(ROWCOUNT => 3)) ORDER BY 1"],
        [(1,), (2,), (3,)],
    ),
    (["SELECT COUNT(*) AS n FROM TABLE(GENERATOR(ROWCOUNT => 4)) AS g"], [(4,)]),
    (["SELECT $1, $2 FROM VALUES (1, 'a'), (2, 'b') ORDER BY $1"], [(1, "a"), (2, "b")]),
    (["SELECT column1 AS x, column2 AS y FROM VALUES (1, 'a'), (2, 'b') ORDER BY x"], [(1, "a"), (2, "b")]),
    (["SELECT v.x FROM (VALUES (1), (2)) AS v (x) ORDER BY x DESC"], [(2,), (1,)]),
    (["SELECT * FROM VALUES (1, 'a') AS t (n, w)"], [(1, "a")]),
    (
        ["CREATE OR REPLACE TEMP TABLE tt AS SELECT id, name FROM emp WHERE id < 3", "SELECT * FROM tt ORDER BY id"],
        [(1, "Ann"), (2, "Bob")],
    ),
    (
        [
            "CREATE OR REPLACE TEMPORARY TABLE tt2 (a INT, b VARCHAR DEFAULT 'z')",
            "INSERT INTO tt2 (a) VALUES (1)",
            "SELECT a, b FROM tt2",
        ],
        [(1, "z")],
    ),
    (
        [
            "CREATE TRANSIENT TABLE IF NOT EXISTS tt3 (a NUMBER(38,0) NOT NULL, b STRING)",
            "INSERT INTO tt3 SELECT 1, 'q'",
            "SELECT * FROM tt3",
        ],
        [(1, "q")],
    ),
    (["USE WAREHOUSE compute_wh", "SELECT 1 AS a"], [(1,)]),
    (["USE DATABASE analytics", "SELECT 1 AS a"], [(1,)]),
    (["USE ROLE sysadmin", "SELECT 1 AS a"], [(1,)]),
    (["ALTER SESSION SET TIMEZONE = 'UTC'", "SELECT 1 AS a"], [(1,)]),
    (
        ["ALTER SESSION SET WEEK_START = 7", "SELECT DATE_TRUNC('week', '2024-03-15'::DATE) AS w"],
        [(date(2024, 3, 10),)],
    ),
    (
        [
            "SELECT name FROM emp QUALIFY ROW_NUMBER() OVER (PARTITION BY dept ORDER BY sal DESC NULLS LAST) = 1 ORDER BY name"
        ],
        [("Bob",), ("Cat",), ("Eve",)],
    ),
    (["SELECT name, RANK() OVER (ORDER BY sal) AS r FROM emp QUALIFY r = 1"], [("Eve", 1)]),
    (
        ["SELECT name, RATIO_TO_REPORT(sal) OVER () AS r FROM emp WHERE dept = 'a' ORDER BY name"],
        [("Ann", 0.25), ("Bob", 0.75)],
    ),
    (["SELECT name FROM emp ORDER BY sal DESC LIMIT 2"], [("Dan",), ("Bob",)]),
    (["SELECT name FROM emp ORDER BY sal LIMIT 1"], [("Eve",)]),
    (["SELECT TOP 2 name FROM emp ORDER BY id"], [("Ann",), ("Bob",)]),
    (["SELECT * EXCLUDE (dept, sal, mgr) FROM emp WHERE id = 1"], [(1, "Ann")]),
    (["SELECT * RENAME (name AS nm) FROM (SELECT id, name FROM emp WHERE id = 1)"], [(1, "Ann")]),
    (["SELECT * ILIKE '%am%' FROM emp WHERE id = 1"], [("Ann",)]),
    (["SELECT dept, SUM(sal) AS t FROM emp GROUP BY ALL ORDER BY dept"], [("a", 400), ("b", 200), (None, 50)]),
    (["SELECT dept d, COUNT(*) c FROM emp GROUP BY d HAVING c > 1 ORDER BY d"], [("a", 2), ("b", 2)]),
    (["SELECT sal * 2 AS dbl, dbl + 1 AS more FROM emp WHERE dbl > 500"], [(600, 601)]),
    (
        [
            "SELECT * FROM (SELECT dept, sal FROM emp WHERE dept IS NOT NULL) PIVOT (SUM(sal) FOR dept IN ('a', 'b')) AS p (a, b)"
        ],
        [(400, 200)],
    ),
    (
        ["SELECT id, k, v FROM (SELECT 1 AS id, 10 AS q1, 20 AS q2) UNPIVOT (v FOR k IN (q1, q2)) ORDER BY k"],
        [(1, "Q1", 10), (1, "Q2", 20)],
    ),
    (
        [
            "SELECT f.value FROM (SELECT PARSE_JSON('[\"x\", 1.50, null]') AS a), LATERAL FLATTEN(INPUT => a) f ORDER BY f.index"
        ],
        [('"x"',), ("1.50",), ("null",)],
    ),
    (
        ["SELECT f.index, f.value::INT AS v FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[5, 6]'))) f ORDER BY 1"],
        [(0, 5), (1, 6)],
    ),
    (
        [
            "SELECT f.key, f.value::INT AS v FROM LATERAL FLATTEN(INPUT => OBJECT_CONSTRUCT('a', 1, 'b', 2)) f ORDER BY 1"
        ],
        [("a", 1), ("b", 2)],
    ),
    (
        [
            "SELECT e.id, f.value::STRING AS w FROM emp e, LATERAL FLATTEN(INPUT => SPLIT(e.name, 'n'), OUTER => TRUE) f WHERE e.id = 1 ORDER BY f.index"
        ],
        [(1, "A"), (1, ""), (1, "")],
    ),
    (["SELECT s.value FROM LATERAL SPLIT_TO_TABLE('a.b', '.') AS s ORDER BY s.index"], [("a",), ("b",)]),
    (
        ["SELECT name FROM emp START WITH mgr IS NULL CONNECT BY PRIOR id = mgr ORDER BY id"],
        [("Ann",), ("Bob",), ("Cat",), ("Dan",), ("Eve",)],
    ),
    (["SELECT * FROM emp MATCH_RECOGNIZE (ORDER BY id MEASURES FIRST(id) AS f PATTERN (a+) DEFINE a AS sal > 0)"], "!"),
    (["BEGIN LET x := 1; RETURN x; END"], "!"),
    (["EXECUTE IMMEDIATE $$ BEGIN RETURN 1; END $$"], "!"),
    (["EXECUTE IMMEDIATE 'SELECT 1 AS a'"], "!"),
    (
        ["WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r ORDER BY n"],
        [(1,), (2,), (3,)],
    ),
    (["SELECT COUNT(*) AS n FROM emp AS a ASOF JOIN emp AS b MATCH_CONDITION (a.id >= b.id)"], "!"),
    (["SELECT id FROM emp MINUS SELECT id FROM emp WHERE id > 1"], [(1,)]),
    (
        [
            "MERGE INTO emp USING (SELECT 1 AS id, 'Anna' AS name) s ON emp.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
            "SELECT name FROM emp WHERE id = 1",
        ],
        [("Anna",)],
    ),
    (
        [
            "UPDATE emp SET sal = t.s FROM (SELECT 2 AS id, 9 AS s) t WHERE emp.id = t.id",
            "SELECT sal FROM emp WHERE id = 2",
        ],
        [(9,)],
    ),
    (["DELETE FROM emp USING (SELECT 3 AS x) t WHERE emp.id = t.x", "SELECT COUNT(*) AS n FROM emp"], [(4,)]),
    (["INSERT OVERWRITE INTO emp SELECT 9, 'Zed', 'z', 1, 1", "SELECT id, name FROM emp"], [(9, "Zed")]),
    (["CREATE OR REPLACE VIEW v AS SELECT id FROM emp WHERE id > 3", "SELECT COUNT(*) AS n FROM v"], [(2,)]),
    (["TRUNCATE TABLE IF EXISTS emp", "SELECT COUNT(*) AS n FROM emp"], [(0,)]),
    (
        ["SELECT a.name, b.name AS boss FROM emp a LEFT JOIN emp b ON a.mgr = b.id ORDER BY a.id LIMIT 2"],
        [("Ann", None), ("Bob", "Ann")],
    ),
    (["SELECT name FROM emp, LATERAL (SELECT 1 AS one) l WHERE id = 1"], [("Ann",)]),
    (
        [
            "SELECT dept, LISTAGG(name, ', ') WITHIN GROUP (ORDER BY name) AS l FROM emp GROUP BY dept ORDER BY dept NULLS FIRST"
        ],
        [(None, "Eve"), ("a", "Ann, Bob"), ("b", "Cat, Dan")],
    ),
    (
        ["SELECT LAG(sal) IGNORE NULLS OVER (ORDER BY id) AS p FROM emp ORDER BY id"],
        [(None,), (100,), (300,), (200,), (200,)],
    ),
    (
        ["SELECT CONDITIONAL_CHANGE_EVENT(dept) OVER (ORDER BY id) AS p FROM emp WHERE id < 5 ORDER BY id"],
        [(0,), (0,), (1,), (1,)],
    ),
    (["SELECT COUNT(*) AS n FROM mydb.public.emp"], [(5,)]),
    (["SELECT COUNT(*) AS n FROM public.emp"], [(5,)]),
    (["SELECT emp.* FROM emp WHERE id = 1"], [(1, "Ann", "a", 100, None)]),
    (["SELECT COUNT(*) AS n FROM emp AT (OFFSET => -60)"], "!"),
    (["SELECT * FROM @stage/file.csv"], "!"),
    (["COPY INTO emp FROM @stage FILE_FORMAT = (TYPE = CSV)"], "!"),
    (["SELECT LAST_QUERY_ID()"], "!"),
    (["SELECT CURRENT_DATABASE() IS NULL AS a, CURRENT_SCHEMA() AS b"], [(False, "public")]),
    (
        [
            "SELECT dept, sal, GROUPING(dept) AS g FROM emp WHERE dept = 'a' GROUP BY ROLLUP (dept, sal) ORDER BY g, sal LIMIT 1"
        ],
        [("a", 100, 0)],
    ),
    (["SELECT 'it\\'s' AS a, 'a\\nb' AS b, $$raw 'x'$$ AS c"], [("it's", "a\nb", "raw 'x'")]),
    (["SELECT IFF(COUNT(*) > 3, 'many', 'few') AS a FROM emp"], [("many",)]),
    (["ALTER TABLE emp ADD COLUMN extra VARIANT", "SELECT COUNT(extra) AS n FROM emp"], [(0,)]),
    (["CREATE TABLE clone_t CLONE emp", "SELECT COUNT(*) AS n FROM clone_t"], [(5,)]),
    (["CREATE OR REPLACE TABLE like_t LIKE emp", "SELECT COUNT(*) AS n FROM like_t"], [(0,)]),
    (
        [
            "INSERT INTO emp (id, name) SELECT column1, column2 FROM VALUES (7, 'Gus')",
            "SELECT name FROM emp WHERE id = 7",
        ],
        [("Gus",)],
    ),
]
"""The texts, and the rows of the last one; `!` for a text that is refused with the text to write."""
