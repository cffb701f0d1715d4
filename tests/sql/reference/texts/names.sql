-- names of columns: an alias, a column, a cast of a column
SELECT x FROM a
SELECT a.x FROM a
SELECT a.x, a.g FROM a
SELECT * FROM a
SELECT a.* FROM a
SELECT a.*, x AS again FROM a
SELECT *, x AS again FROM a
SELECT x y FROM a
SELECT x AS "X y" FROM a
SELECT x AS "X", g AS x FROM a
SELECT x AS g, g AS x FROM a
SELECT X, G FROM A
SELECT "x" FROM "a"
SELECT x AS SELECT_ED FROM a
SELECT x AS "select" FROM a
SELECT x AS "Ümlaut" FROM a
SELECT x AS n_1 FROM a ORDER BY n_1, g NULLS FIRST
-- equal names
SELECT x, x FROM a
SELECT x, x AS x FROM a
SELECT x AS v, g AS v FROM a
SELECT a.g, b.g FROM a JOIN b ON a.g = b.g
SELECT * FROM a JOIN b ON a.g = b.g
SELECT * FROM a CROSS JOIN c
SELECT a.*, b.* FROM a, b WHERE a.x = b.y
SELECT x, a.x, a.* FROM a
SELECT *, * FROM c
SELECT CAST(x AS text) FROM (VALUES (2), (1)) v(x) ORDER BY x
SELECT x::text FROM (VALUES (2), (1)) v(x) ORDER BY x
SELECT x, CAST(x AS text) FROM a
SELECT CAST(x AS text) AS x FROM (VALUES (10), (9)) v(x) ORDER BY x
SELECT CAST(x AS text) AS x FROM (VALUES (10), (9)) v(x) ORDER BY v.x
SELECT CAST(x AS text), CAST(x AS bigint) FROM c JOIN a ON a.x = c.y
SELECT x::text, count(*) FROM a GROUP BY x::text
SELECT CAST(x AS text), count(*) FROM a GROUP BY x
SELECT CAST(x AS text) AS x, count(*) AS n FROM a GROUP BY 1
SELECT CAST(x AS bigint) FROM a ORDER BY x, g LIMIT 3
SELECT a.x::text, c.y FROM a JOIN c ON a.x = c.y ORDER BY a.x, c.y, a.g
SELECT count(*), count(*) FROM a
SELECT count(*), (SELECT count(*) FROM a) FROM b
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)
SELECT max(x), max(x) + 1, max(g) FROM a
SELECT sum(x), sum(x) OVER () FROM a GROUP BY x
SELECT y != 1, y <> 1 FROM c
SELECT mod(y, 2), y % 2 FROM c
SELECT (y), y FROM c
SELECT (y), c.y, "y" FROM c
SELECT position('a' IN w), strpos(w, 'a') FROM words
SELECT substring(w FROM 2), substr(w, 2) FROM words
SELECT substring(w FROM 2 FOR 1), substring(w, 2, 1) FROM words
SELECT y + 1, y+1, y  +  1 FROM c
SELECT 1, 1 FROM c
SELECT 1, '1', 1.0
SELECT NULL, NULL
SELECT 'a', 'a', 'b'
SELECT upper(w), UPPER(w), upper((w)) FROM words
SELECT y IN (1, 2), y = 1 OR y = 2 FROM c
SELECT y BETWEEN 1 AND 2, y >= 1 AND y <= 2 FROM c
SELECT NOT y = 1, y <> 1 FROM c
SELECT y IS NULL, (y IS NULL) FROM c
SELECT CASE WHEN y = 1 THEN 2 END, CASE WHEN y = 1 THEN 2 ELSE NULL END FROM c
SELECT CASE y WHEN 1 THEN 2 END, CASE WHEN y = 1 THEN 2 END FROM c
SELECT coalesce(y, 0), CASE WHEN y IS NOT NULL THEN y ELSE 0 END FROM c
SELECT -y, 0 - y, - y FROM c
SELECT y::int, CAST(y AS int), CAST(y AS integer), y FROM c
SELECT y::text, y::varchar FROM c
SELECT extract(year FROM arrives), date_part('year', arrives) FROM stays
SELECT w LIKE 'a%', w ~~ 'a%' FROM words
SELECT w || 'a', concat(w, 'a') FROM words
SELECT trim(w), btrim(w), trim(BOTH FROM w) FROM words
SELECT current_date = current_date, current_date = current_date
SELECT date '2024-01-01', CAST('2024-01-01' AS date), '2024-01-01'::date
SELECT interval '1 day', CAST('1 day' AS interval)
SELECT true, TRUE, NOT false
SELECT row_number() OVER (ORDER BY y), row_number() OVER (ORDER BY y) FROM c WHERE y > 2
SELECT rank() OVER (ORDER BY y), rank() OVER (ORDER BY y DESC) FROM c
SELECT sum(y) OVER w, sum(y) OVER w FROM c WINDOW w AS (ORDER BY y)
SELECT lower(g), g FROM nums WHERE g = lower(g)
SELECT abs(y), abs(y), @ y FROM c
SELECT d.v, d.v FROM (SELECT y AS v FROM c) d
SELECT v FROM (SELECT y AS v, g AS w FROM c) d
SELECT d.* FROM (SELECT y, y + 1 AS z FROM c) d
SELECT * FROM (SELECT y AS "A b", g FROM c) d WHERE "A b" = 5
SELECT "?column?" FROM (SELECT 1) d
SELECT count FROM (SELECT count(*) FROM c) d
SELECT d.max, d.min FROM (SELECT max(y), min(y) FROM c) d
SELECT "coalesce" FROM (SELECT coalesce(y, 0) FROM c) d
SELECT d.y FROM (SELECT y::text FROM c) d
SELECT column1, column2 FROM (VALUES (1, 'a'), (2, 'b')) v
SELECT p, q FROM (VALUES (1, 'a'), (2, 'b')) v(p, q)
SELECT p FROM (SELECT y, g FROM c) v(p)
SELECT p, g FROM (SELECT y, g FROM c) v(p)
SELECT v.p, v.q FROM a AS v(p, q) WHERE q = 1
SELECT v.* FROM a AS v(p, q) WHERE v.q = 1
WITH v(p, q) AS (SELECT y, g FROM c) SELECT * FROM v
WITH v(p) AS (SELECT y, g FROM c) SELECT p, g FROM v
WITH v AS (SELECT y, y + 1 FROM c) SELECT count(*) FROM v
SELECT x.y FROM c AS x WHERE x.g = 1
SELECT y AS x FROM c AS x WHERE x.y = 5
SELECT c FROM (VALUES (1)) v(c)
SELECT g FROM a GROUP BY g ORDER BY g
SELECT g AS k, count(*) AS n FROM a GROUP BY k
SELECT g + 1 AS x, count(*) AS n FROM a GROUP BY g
SELECT x AS g, count(*) AS n FROM a GROUP BY x
SELECT -x AS x FROM a WHERE x > 1 ORDER BY x, g NULLS FIRST
SELECT -x AS x FROM a WHERE x > 2 ORDER BY x + 0
SELECT -x AS x FROM a WHERE x > 2 ORDER BY -x
SELECT -y AS v FROM c ORDER BY v
SELECT g AS x, x AS g FROM a WHERE x > 2 ORDER BY x NULLS FIRST
SELECT g AS x, x AS g FROM a WHERE x > 2 ORDER BY a.x
SELECT upper(g) AS g FROM nums GROUP BY g ORDER BY g
SELECT length(w) AS w FROM words ORDER BY w NULLS FIRST
SELECT y FROM c ORDER BY c.g, y
SELECT c.y AS q FROM c ORDER BY c.y DESC, c.g
SELECT max(x) AS x FROM a GROUP BY g ORDER BY x NULLS FIRST, max(a.g)
SELECT max(x) AS x FROM a GROUP BY g HAVING max(x) > 1
SELECT x AS "order", g AS "group" FROM a ORDER BY "order", "group" NULLS FIRST
SELECT a.g AS "a.g" FROM a
SELECT a AS q FROM (SELECT 1 AS a) a
SELECT x AS y, y AS x FROM (SELECT 1 AS x, 2 AS y) v
SELECT y FROM c WHERE y IN (SELECT g AS y FROM b)
SELECT x FROM a WHERE EXISTS (SELECT x FROM b WHERE y = x)
SELECT x FROM a WHERE x IN (SELECT x FROM c)
SELECT (SELECT x) FROM a
SELECT (SELECT max(y) FROM c) FROM b WHERE y = 1
SELECT 1 AS a, 2 AS a, 3 AS a
SELECT id, name AS id FROM emp WHERE id < 3
SELECT emp.id, m.id FROM emp JOIN emp m ON emp.boss = m.id
SELECT emp.name, m.name AS boss FROM emp LEFT JOIN emp m ON emp.boss = m.id
