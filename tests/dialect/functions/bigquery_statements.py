"""Whole statements of BigQuery, with the rows of its documentation."""

from datetime import date
from typing import Any, Final

PRODUCE: Final = (
    "WITH Produce AS (SELECT 'kale' AS item, 23 AS purchases, 'vegetable' AS category UNION ALL "
    "SELECT 'banana', 2, 'fruit' UNION ALL "
    "SELECT 'cabbage', 9, 'vegetable' UNION ALL "
    "SELECT 'apple', 8, 'fruit' UNION ALL "
    "SELECT 'leek', 2, 'vegetable' UNION ALL "
    "SELECT 'lettuce', 10, 'vegetable') "
)
QUARTERS: Final = (
    "WITH Produce AS (SELECT 'Kale' AS product, 51 AS sales, 'Q1' AS quarter, 2020 AS year UNION ALL "
    "SELECT 'Kale', 23, 'Q2', 2020 UNION ALL "
    "SELECT 'Kale', 45, 'Q3', 2020 UNION ALL "
    "SELECT 'Kale', 3, 'Q4', 2020 UNION ALL "
    "SELECT 'Kale', 70, 'Q1', 2021 UNION ALL "
    "SELECT 'Kale', 85, 'Q2', 2021 UNION ALL "
    "SELECT 'Apple', 77, 'Q1', 2020 UNION ALL "
    "SELECT 'Apple', 0, 'Q2', 2020 UNION ALL "
    "SELECT 'Apple', 1, 'Q1', 2021) "
)
HALVES: Final = (
    "WITH Produce AS (SELECT 'Kale' AS product, 51 AS Q1, 23 AS Q2, 45 AS Q3, 3 AS Q4 UNION ALL "
    "SELECT 'Apple', 77, 0, 25, 2) "
)
STATEMENTS: Final[list[tuple[str, list[dict[str, Any]]]]] = [
    (
        "SELECT * EXCEPT (i2) FROM (SELECT 1 AS a, 2 AS i2, 'x' AS c) AS t",
        [{"a": 1, "c": "x"}],
    ),
    (
        "SELECT * REPLACE (quantity / 2 AS quantity) FROM (SELECT 5 AS order_id, 'sprocket' AS item, 200 AS quantity) AS o",
        [{"order_id": 5, "item": "sprocket", "quantity": 100.0}],
    ),
    (
        "SELECT item, RANK() OVER (PARTITION BY category ORDER BY purchases DESC) AS r FROM ("
        + PRODUCE
        + "SELECT * FROM Produce) WHERE TRUE QUALIFY r = 1 ORDER BY item",
        [{"item": "apple", "r": 1}, {"item": "kale", "r": 1}],
    ),
    (
        PRODUCE
        + "SELECT item FROM Produce QUALIFY ROW_NUMBER() OVER (PARTITION BY category ORDER BY purchases DESC) <= 1 ORDER BY 1",
        [{"item": "apple"}, {"item": "kale"}],
    ),
    (
        PRODUCE
        + "SELECT item, SUM(purchases) OVER (PARTITION BY category ORDER BY purchases, item ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t FROM Produce ORDER BY category, t",
        [
            {"item": "banana", "t": 2},
            {"item": "apple", "t": 10},
            {"item": "leek", "t": 2},
            {"item": "cabbage", "t": 11},
            {"item": "lettuce", "t": 21},
            {"item": "kale", "t": 44},
        ],
    ),
    (
        PRODUCE
        + "SELECT item, LAST_VALUE(item) OVER (PARTITION BY category ORDER BY purchases ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS m FROM Produce ORDER BY item",
        [
            {"item": "apple", "m": "apple"},
            {"item": "banana", "m": "apple"},
            {"item": "cabbage", "m": "kale"},
            {"item": "kale", "m": "kale"},
            {"item": "leek", "m": "kale"},
            {"item": "lettuce", "m": "kale"},
        ],
    ),
    (
        PRODUCE
        + "SELECT item, LAST_VALUE(item) OVER (item_window ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM Produce WHERE category = 'vegetable' WINDOW item_window AS (ORDER BY purchases) ORDER BY purchases",
        [
            {"item": "leek", "m": "cabbage"},
            {"item": "cabbage", "m": "lettuce"},
            {"item": "lettuce", "m": "kale"},
            {"item": "kale", "m": "kale"},
        ],
    ),
    (
        PRODUCE
        + "SELECT item, COUNT(*) OVER (ORDER BY purchases RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS n FROM Produce ORDER BY item",
        [
            {"item": "apple", "n": 3},
            {"item": "banana", "n": 2},
            {"item": "cabbage", "n": 3},
            {"item": "kale", "n": 1},
            {"item": "leek", "n": 2},
            {"item": "lettuce", "n": 3},
        ],
    ),
    (
        PRODUCE
        + "SELECT category, ARRAY_AGG(item ORDER BY purchases DESC LIMIT 2) AS top FROM Produce GROUP BY category ORDER BY category",
        [{"category": "fruit", "top": ["apple", "banana"]}, {"category": "vegetable", "top": ["kale", "lettuce"]}],
    ),
    (
        PRODUCE
        + "SELECT category, STRING_AGG(item, ', ' ORDER BY item LIMIT 2) AS t FROM Produce GROUP BY 1 ORDER BY 1",
        [{"category": "fruit", "t": "apple, banana"}, {"category": "vegetable", "t": "cabbage, kale"}],
    ),
    (
        PRODUCE
        + "SELECT ANY_VALUE(item HAVING MAX purchases) AS a, ANY_VALUE(item HAVING MIN purchases + LENGTH(item)) AS b FROM Produce",
        [{"a": "kale", "b": "leek"}],
    ),
    (
        PRODUCE
        + "SELECT category, PERCENTILE_CONT(purchases, 0.5) OVER (PARTITION BY category) AS m FROM Produce QUALIFY ROW_NUMBER() OVER (PARTITION BY category ORDER BY item) = 1 ORDER BY category",
        [{"category": "fruit", "m": 5.0}, {"category": "vegetable", "m": 9.5}],
    ),
    (
        PRODUCE
        + "SELECT category, item, purchases, GROUPING(category) AS g FROM (SELECT category, 'x' AS item, SUM(purchases) AS purchases FROM Produce GROUP BY category) GROUP BY category, item, purchases ORDER BY 1",
        [
            {"category": "fruit", "item": "x", "purchases": 10, "g": 0},
            {"category": "vegetable", "item": "x", "purchases": 44, "g": 0},
        ],
    ),
    (
        PRODUCE + "SELECT category, SUM(purchases) AS s FROM Produce GROUP BY ROLLUP (category) ORDER BY category",
        [{"category": None, "s": 54}, {"category": "fruit", "s": 10}, {"category": "vegetable", "s": 44}],
    ),
    (
        PRODUCE + "SELECT category, COUNT(*) AS n FROM Produce GROUP BY ALL ORDER BY category",
        [{"category": "fruit", "n": 2}, {"category": "vegetable", "n": 4}],
    ),
    (
        PRODUCE + "SELECT item FROM Produce WHERE purchases = (SELECT MAX(purchases) FROM Produce)",
        [{"item": "kale"}],
    ),
    (
        QUARTERS
        + "SELECT * FROM (SELECT product, sales, quarter FROM Produce) PIVOT (SUM(sales) FOR quarter IN ('Q1', 'Q2', 'Q3', 'Q4')) ORDER BY product",
        [
            {"product": "Apple", "Q1": 78, "Q2": 0, "Q3": None, "Q4": None},
            {"product": "Kale", "Q1": 121, "Q2": 108, "Q3": 45, "Q4": 3},
        ],
    ),
    (
        QUARTERS + "SELECT * FROM Produce PIVOT (SUM(sales) FOR quarter IN ('Q1', 'Q2', 'Q3')) ORDER BY product, year",
        [
            {"product": "Apple", "year": 2020, "Q1": 77, "Q2": 0, "Q3": None},
            {"product": "Apple", "year": 2021, "Q1": 1, "Q2": None, "Q3": None},
            {"product": "Kale", "year": 2020, "Q1": 51, "Q2": 23, "Q3": 45},
            {"product": "Kale", "year": 2021, "Q1": 70, "Q2": 85, "Q3": None},
        ],
    ),
    (
        HALVES + "SELECT * FROM Produce UNPIVOT (sales FOR quarter IN (Q1, Q2, Q3, Q4)) ORDER BY product, quarter",
        [
            {"product": "Apple", "sales": 77, "quarter": "Q1"},
            {"product": "Apple", "sales": 0, "quarter": "Q2"},
            {"product": "Apple", "sales": 25, "quarter": "Q3"},
            {"product": "Apple", "sales": 2, "quarter": "Q4"},
            {"product": "Kale", "sales": 51, "quarter": "Q1"},
            {"product": "Kale", "sales": 23, "quarter": "Q2"},
            {"product": "Kale", "sales": 45, "quarter": "Q3"},
            {"product": "Kale", "sales": 3, "quarter": "Q4"},
        ],
    ),
    (
        "WITH T AS (SELECT 'a' AS n, 1 AS x, CAST(NULL AS INT64) AS y) SELECT * FROM T UNPIVOT (v FOR k IN (x, y))",
        [{"n": "a", "v": 1, "k": "x"}],
    ),
    (
        "WITH T AS (SELECT 'a' AS n, 1 AS x, CAST(NULL AS INT64) AS y) SELECT * FROM T UNPIVOT INCLUDE NULLS (v FOR k IN (x, y)) ORDER BY k",
        [{"n": "a", "v": 1, "k": "x"}, {"n": "a", "v": None, "k": "y"}],
    ),
    (
        "WITH RECURSIVE T1 AS ((SELECT 1 AS n) UNION ALL (SELECT n + 1 AS n FROM T1 WHERE n < 3)) SELECT n FROM T1 ORDER BY n",
        [{"n": 1}, {"n": 2}, {"n": 3}],
    ),
    (
        "SELECT * FROM UNNEST(['foo', 'bar', 'baz']) AS element WITH OFFSET AS offset ORDER BY offset",
        [{"element": "foo", "offset": 0}, {"element": "bar", "offset": 1}, {"element": "baz", "offset": 2}],
    ),
    (
        "SELECT element, offset FROM UNNEST(['foo', 'bar']) AS element WITH OFFSET ORDER BY offset DESC",
        [{"element": "bar", "offset": 1}, {"element": "foo", "offset": 0}],
    ),
    (
        "SELECT * FROM UNNEST([STRUCT('foo' AS x, 1 AS y), STRUCT('bar', 3)]) ORDER BY y",
        [{"x": "foo", "y": 1}, {"x": "bar", "y": 3}],
    ),
    (
        "WITH Sequences AS (SELECT 1 AS id, [0, 1, 1, 2, 3, 5] AS some_numbers UNION ALL SELECT 2, [2, 4, 8, 16, 32]) SELECT id, flattened FROM Sequences CROSS JOIN UNNEST(Sequences.some_numbers) AS flattened WHERE flattened > 4 ORDER BY id, flattened",
        [{"id": 1, "flattened": 5}, {"id": 2, "flattened": 8}, {"id": 2, "flattened": 16}, {"id": 2, "flattened": 32}],
    ),
    (
        "WITH S AS (SELECT 1 AS id, [1, 2] AS n UNION ALL SELECT 2, []) SELECT id, v FROM S LEFT JOIN UNNEST(n) AS v ORDER BY id, v",
        [{"id": 1, "v": 1}, {"id": 1, "v": 2}, {"id": 2, "v": None}],
    ),
    (
        "WITH S AS (SELECT [0, 1, 1, 2, 3, 5] AS some_numbers UNION ALL SELECT [5, 10]) SELECT some_numbers, ARRAY(SELECT x * 2 FROM UNNEST(some_numbers) AS x WITH OFFSET o ORDER BY o) AS doubled, (SELECT SUM(x) FROM UNNEST(S.some_numbers) x) AS sums FROM S ORDER BY sums",
        [
            {"some_numbers": [0, 1, 1, 2, 3, 5], "doubled": [0, 2, 2, 4, 6, 10], "sums": 12},
            {"some_numbers": [5, 10], "doubled": [10, 20], "sums": 15},
        ],
    ),
    (
        "SELECT ARRAY(SELECT AS STRUCT x AS v, o AS pos FROM UNNEST(['a', 'b']) AS x WITH OFFSET AS o ORDER BY o) AS r",
        [{"r": [{"v": "a", "pos": 0}, {"v": "b", "pos": 1}]}],
    ),
    (
        "SELECT r.name, l FROM (SELECT STRUCT('Rudisha' AS name, [23.4, 26.3] AS laps) AS r) CROSS JOIN UNNEST(r.laps) AS l ORDER BY l",
        [{"name": "Rudisha", "l": 23.4}, {"name": "Rudisha", "l": 26.3}],
    ),
    (
        "SELECT STRUCT(1 AS a, 'x' AS b) AS s",
        [{"s": {"a": 1, "b": "x"}}],
    ),
    (
        "SELECT s.* FROM (SELECT STRUCT(1 AS a, 'x' AS b) AS s)",
        [{"a": 1, "b": "x"}],
    ),
    (
        "SELECT AS STRUCT 1 AS a, 2 AS b",
        [{"a": 1, "b": 2}],
    ),
    (
        "SELECT * FROM (SELECT 1 AS x UNION DISTINCT SELECT 1) EXCEPT DISTINCT SELECT 2 AS x",
        [{"x": 1}],
    ),
    (
        "(SELECT 1 AS x UNION ALL SELECT 2) INTERSECT DISTINCT SELECT 2",
        [{"x": 2}],
    ),
    (
        "SELECT n FROM `many` AS m WHERE w IS NOT NULL ORDER BY n DESC LIMIT 2 OFFSET 1",
        [{"n": 2}, {"n": 1}],
    ),
    (
        "SELECT w, n FROM many ORDER BY w ASC, n",
        [{"w": None, "n": 4}, {"w": "x", "n": 1}, {"w": "x", "n": 2}, {"w": "y", "n": 2}],
    ),
    (
        "SELECT w FROM many ORDER BY w DESC, n",
        [{"w": "y"}, {"w": "x"}, {"w": "x"}, {"w": None}],
    ),
    (
        "SELECT w FROM many WHERE n > 1 ORDER BY w DESC NULLS FIRST",
        [{"w": None}, {"w": "y"}, {"w": "x"}],
    ),
    (
        "SELECT FORMAT('%T', ARRAY_AGG(x)) AS a FROM UNNEST([2, 1, -2, 3, -2, 1, 2]) AS x",
        [{"a": "[2, 1, -2, 3, -2, 1, 2]"}],
    ),
    (
        "SELECT m.day, LAG(m.n) OVER (ORDER BY m.day) AS prev, LEAD(m.n, 1, -1) OVER (ORDER BY m.day) AS next FROM many m WHERE m.day IS NOT NULL ORDER BY m.day",
        [
            {"day": date(2024, 1, 1), "prev": None, "next": 2},
            {"day": date(2024, 1, 5), "prev": 1, "next": 4},
            {"day": date(2024, 2, 1), "prev": 2, "next": -1},
        ],
    ),
    (
        "SELECT FIRST_VALUE(x IGNORE NULLS) OVER (ORDER BY n, w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS v FROM many ORDER BY n, w",
        [{"v": 10.5}, {"v": 20.0}, {"v": 20.0}, {"v": 1.5}],
    ),
    (
        "SELECT day, COUNT(*) AS c FROM UNNEST(GENERATE_DATE_ARRAY('2024-01-01', '2024-01-03')) AS day GROUP BY day ORDER BY day",
        [{"day": date(2024, 1, 1), "c": 1}, {"day": date(2024, 1, 2), "c": 1}, {"day": date(2024, 1, 3), "c": 1}],
    ),
    (
        "SELECT COUNT(*) AS c FROM UNNEST(GENERATE_ARRAY(1, 10, 2)) AS x, UNNEST([1, 2]) AS y",
        [{"c": 10}],
    ),
    (
        "SELECT a.n, b.w FROM many AS a JOIN many AS b USING (n) WHERE a.n = 2 ORDER BY b.w",
        [{"n": 2, "w": "x"}, {"n": 2, "w": "x"}, {"n": 2, "w": "y"}, {"n": 2, "w": "y"}],
    ),
    (
        "SELECT DATE_TRUNC(day, MONTH) AS m, SUM(n) AS t FROM many GROUP BY m HAVING t > 1 ORDER BY m",
        [{"m": None, "t": 2}, {"m": date(2024, 1, 1), "t": 3}, {"m": date(2024, 2, 1), "t": 4}],
    ),
    (
        "SELECT x, y FROM UNNEST([1, 2]) AS x WITH OFFSET AS a JOIN UNNEST(['p', 'q']) AS y WITH OFFSET AS b ON a = b ORDER BY x",
        [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}],
    ),
    (
        "SELECT COUNTIF(x < 0) AS a, COUNT(DISTINCT IF(x > 0, x, NULL)) AS b FROM UNNEST([5, -2, 3, 6, -10, NULL, -7, 4, 0]) AS x",
        [{"a": 3, "b": 4}],
    ),
    (
        "SELECT JSON_VALUE(j, '$.name') AS name, ARRAY_LENGTH(JSON_QUERY_ARRAY(j, '$.items')) AS n FROM (SELECT '{\"name\":\"Jakob\",\"items\":[1,2]}' AS j)",
        [{"name": "Jakob", "n": 2}],
    ),
    (
        'SELECT j.name AS name, INT64(j.age) AS age FROM (SELECT JSON \'{"name":"Jakob","age":6}\' AS j)',
        [{"name": '"Jakob"', "age": 6}],
    ),
    (
        'SELECT item FROM UNNEST(JSON_VALUE_ARRAY(\'["a","b"]\')) AS item ORDER BY item',
        [{"item": "a"}, {"item": "b"}],
    ),
    (
        "FROM many |> WHERE n > 1 |> AGGREGATE COUNT(*) AS c",
        [{"c": 3}],
    ),
    (
        "SELECT IF(n > 1, 'big', 'small') AS size, COUNT(*) AS c FROM many GROUP BY size ORDER BY c",
        [{"size": "small", "c": 1}, {"size": "big", "c": 3}],
    ),
    (
        "SELECT x FROM UNNEST([1, 2, 3]) AS x WHERE x NOT IN (SELECT n FROM many) ORDER BY x",
        [{"x": 3}],
    ),
    (
        "SELECT ARRAY_AGG(x IGNORE NULLS ORDER BY x DESC LIMIT 2) AS a, STRING_AGG(CAST(x AS STRING), '&' ORDER BY x) AS b FROM UNNEST([3, NULL, 1, 2]) AS x",
        [{"a": [3, 2], "b": "1&2&3"}],
    ),
    (
        "SELECT ROW_NUMBER() OVER () AS r FROM UNNEST([1, 2]) ORDER BY r",
        [{"r": 1}, {"r": 2}],
    ),
    (
        "WITH d AS (SELECT DATE '2008-12-25' AS a) SELECT EXTRACT(ISOYEAR FROM a) AS y, EXTRACT(ISOWEEK FROM a) AS w, EXTRACT(WEEK FROM a) AS w2 FROM d",
        [{"y": 2008, "w": 52, "w2": 51}],
    ),
]
"""A statement and its rows."""
