-- no table, and conditions that are constant
SELECT 1 AS x
SELECT 1 AS x WHERE true
SELECT 1 AS x WHERE false
SELECT 1 AS x WHERE NULL
SELECT x FROM a WHERE true
SELECT x FROM a WHERE NULL
SELECT x FROM a WHERE 1 = 0 OR x = 1
SELECT x FROM a WHERE x = x
SELECT x FROM a WHERE NOT x = x
SELECT x FROM a WHERE 'a' = 'a' AND x > 2
SELECT count(*) AS n FROM a WHERE false
SELECT 'x' AS c FROM a WHERE x > 2
-- VALUES
VALUES (1, 'a'), (2, 'b')
VALUES (1), (NULL), (2) ORDER BY 1
VALUES (1), (3), (2) ORDER BY column1 DESC LIMIT 2
VALUES (NULL), (1.5), (2)
VALUES (NULL, 'a'), (1, NULL)
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v
SELECT v.n, v.t FROM (VALUES (1, 'a'), (2, 'b')) v(n, t) WHERE n > 1
SELECT * FROM (VALUES (1), (1.5), (NULL)) v(n)
SELECT * FROM (VALUES ('a'), (NULL)) v(n)
SELECT * FROM (VALUES (date '2024-01-01'), (NULL)) v(n)
SELECT * FROM (VALUES (1, 2), (3, 4)) v(p, q) JOIN (VALUES (1), (3)) w(p) USING (p)
SELECT x FROM a WHERE x IN (VALUES (1), (3))
SELECT x FROM a WHERE (x, g) IN (VALUES (1, 1), (3, 2))
SELECT sum(n) AS s FROM (VALUES (1), (2), (NULL)) v(n)
SELECT n + 1 AS m FROM (VALUES (CAST(NULL AS int)), (2)) v(n)
SELECT * FROM (VALUES (interval '1 day'), (interval '2 hours')) v(i) WHERE i > interval '3 hours'
SELECT * FROM (VALUES (true, 1), (NULL, 2)) v(p, n) WHERE p
TABLE b
TABLE c ORDER BY y, g LIMIT 2
-- subqueries in FROM
SELECT i.x FROM (SELECT x FROM a WHERE x > 1) i WHERE i.x < 4
SELECT i.n FROM (SELECT count(*) AS n FROM a) i
SELECT i.g, i.n FROM (SELECT g, count(*) AS n FROM a GROUP BY g) i WHERE i.n > 1
SELECT x FROM (SELECT x FROM (SELECT x, g FROM a) j WHERE g = 1) i
SELECT i.x, j.y FROM (SELECT x FROM a) i JOIN (SELECT y FROM b) j ON i.x = j.y
SELECT x FROM ((SELECT x FROM a)) i
SELECT p FROM (SELECT x AS p, g FROM a WHERE g = 2) AS i
SELECT i.x + j.m AS z FROM a i, (SELECT max(y) AS m FROM b) j
-- WITH
WITH w AS (SELECT 1 AS x) SELECT x FROM w
WITH w AS (SELECT x FROM a WHERE x > 1), v AS (SELECT x + 1 AS z FROM w) SELECT z FROM v
WITH w AS (SELECT x, g FROM a) SELECT l.x, r.x AS rx FROM w l JOIN w r ON l.x = r.g
WITH w(p) AS (SELECT x FROM a) SELECT p FROM w WHERE p IS NOT NULL
WITH w AS (SELECT g, count(*) AS n FROM a GROUP BY g) SELECT max(n) AS m FROM w
WITH a AS (SELECT y AS x FROM c) SELECT x FROM a
WITH a AS (SELECT x + 10 AS x FROM a) SELECT x FROM a
WITH w AS (SELECT x FROM a), w2 AS (SELECT x FROM w WHERE x > 2) SELECT count(*) AS n FROM w, w2
SELECT x FROM (WITH w AS (SELECT x FROM a WHERE g = 1) SELECT x FROM w) i
SELECT x FROM a WHERE x IN (WITH w AS (SELECT y FROM c) SELECT y FROM w)
WITH w AS (WITH v AS (SELECT 1 AS x) SELECT x + 1 AS x FROM v) SELECT x FROM w
WITH w AS (SELECT 1 AS x), v AS (SELECT 2 AS x) SELECT x FROM w UNION ALL SELECT x FROM v
WITH w AS (SELECT y FROM b) SELECT (SELECT max(y) FROM w) AS m, (SELECT min(y) FROM w) AS n
WITH w AS MATERIALIZED (SELECT x FROM a) SELECT x FROM w WHERE x > 3
WITH w AS NOT MATERIALIZED (SELECT x FROM a) SELECT x FROM w WHERE x > 3
WITH w AS (VALUES (1, 'a'), (2, 'b')) SELECT column1 FROM w
WITH w AS (SELECT x FROM a ORDER BY x LIMIT 2) SELECT sum(x) AS s FROM w
WITH w AS (SELECT 1 AS n) SELECT x FROM a, w WHERE x = n
WITH w AS (TABLE c) SELECT y FROM w WHERE g = 2
WITH unused AS (SELECT 1 AS n) SELECT 2 AS m
-- recursion
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r
WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n * 2 FROM r WHERE n < 20) SELECT sum(n) AS s FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n % 3 + 1 FROM r) SELECT n FROM r
WITH RECURSIVE r AS (SELECT id, parent, 0 AS depth FROM tree WHERE parent IS NULL UNION ALL SELECT t.id, t.parent, r.depth + 1 FROM tree t JOIN r ON t.parent = r.id) SELECT id, depth FROM r
WITH RECURSIVE r AS (SELECT id, CAST(label AS text) AS path FROM tree WHERE parent IS NULL UNION ALL SELECT t.id, r.path || '/' || coalesce(t.label, '?') FROM tree t JOIN r ON t.parent = r.id) SELECT id, path FROM r
WITH RECURSIVE r AS (SELECT id, parent FROM tree WHERE id = 7 UNION ALL SELECT t.id, t.parent FROM tree t JOIN r ON t.id = r.parent) SELECT id FROM r
WITH RECURSIVE r AS (SELECT id AS root, id FROM tree UNION ALL SELECT r.root, t.id FROM tree t JOIN r ON t.parent = r.id) SELECT root, count(*) AS n FROM r GROUP BY root
WITH RECURSIVE r(n, f) AS (SELECT 1, 1 UNION ALL SELECT n + 1, f * (n + 1) FROM r WHERE n < 6) SELECT n, f FROM r ORDER BY n
WITH RECURSIVE r(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM r WHERE b < 50) SELECT a FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r LIMIT 3
WITH RECURSIVE r(n) AS (SELECT 1 WHERE false UNION ALL SELECT n + 1 FROM r) SELECT n FROM r
WITH RECURSIVE r(d) AS (SELECT date '2024-01-30' UNION ALL SELECT d + 1 FROM r WHERE d < date '2024-02-02') SELECT d FROM r
WITH RECURSIVE w AS (SELECT 1 AS x) SELECT x FROM w
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3), s AS (SELECT n * 10 AS m FROM r) SELECT m FROM s
WITH RECURSIVE r(id) AS (SELECT 2 UNION SELECT t.id FROM tree t, r WHERE t.parent = r.id) SELECT tree.label FROM tree WHERE id IN (SELECT id FROM r)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(y) FROM c)) SELECT count(*) AS n FROM r
-- conditions
SELECT id FROM words WHERE w LIKE 'a%'
SELECT id FROM words WHERE w LIKE '%a%'
SELECT id FROM words WHERE w NOT LIKE '%a%'
SELECT id FROM words WHERE w LIKE '_pple'
SELECT id FROM words WHERE w LIKE 'a\_b'
SELECT id FROM words WHERE w LIKE 'a_b'
SELECT id FROM words WHERE w LIKE '100!%' ESCAPE '!'
SELECT id FROM words WHERE w LIKE '100\%'
SELECT id FROM words WHERE w LIKE ''
SELECT id FROM words WHERE w LIKE '%'
SELECT id FROM words WHERE w LIKE NULL
SELECT id FROM words WHERE w ILIKE 'A%'
SELECT id FROM words WHERE w ILIKE 'ä%'
SELECT id FROM words WHERE w NOT ILIKE '%P%'
SELECT id FROM words WHERE w LIKE w
SELECT id FROM words WHERE w SIMILAR TO '(a|b)%'
SELECT id FROM words WHERE w NOT SIMILAR TO '%p{2}%'
SELECT id FROM words WHERE w ~ '^a'
SELECT id FROM words WHERE w ~* '^Ä'
SELECT id FROM words WHERE w !~ 'p'
SELECT id FROM words WHERE w !~* 'P'
SELECT id FROM words WHERE w ~ '\d+'
SELECT id FROM words WHERE w = 'apple' OR n > 3
SELECT id FROM words WHERE w IN ('apple', 'a_b', NULL)
SELECT id FROM words WHERE w NOT IN ('apple', NULL)
SELECT id FROM words WHERE w < 'b'
SELECT id FROM words WHERE w > 'apple' AND w < 'c'
SELECT id FROM words WHERE w BETWEEN 'a' AND 'b'
SELECT id FROM words WHERE w = ''
SELECT id FROM words WHERE w <> ''
SELECT id FROM words WHERE w IS NULL OR w = ''
SELECT id FROM words WHERE starts_with(w, 'a')
SELECT id FROM words WHERE w ^@ 'a'
SELECT id FROM words WHERE n = ANY (ARRAY[1, 2])
SELECT id FROM words WHERE w LIKE ANY (ARRAY['a%', 'b%'])
SELECT id FROM words WHERE length(w) > n
SELECT id FROM words WHERE n / 2 = 1
SELECT id FROM words WHERE n % 2 = 1
SELECT id FROM words WHERE n > 0 AND 10 / n > 4
SELECT id FROM words WHERE CASE WHEN n <> 0 THEN 10 / n > 4 ELSE false END
-- CASE and the like
SELECT id, CASE WHEN n > 2 THEN 'big' WHEN n > 0 THEN 'small' END AS r FROM words
SELECT id, CASE n WHEN 1 THEN 'one' WHEN NULL THEN 'none' ELSE 'more' END AS r FROM words
SELECT id, CASE WHEN n IS NULL THEN 0 ELSE n END AS r FROM words
SELECT id, CASE WHEN w LIKE 'a%' THEN n ELSE 0.5 END AS r FROM words
SELECT id, CASE WHEN n > 0 THEN 10 / n END AS r FROM words
SELECT id, CASE WHEN n = 0 THEN NULL ELSE 10 / n END AS r FROM words
SELECT CASE WHEN true THEN 1 ELSE 1 / 0 END AS r
SELECT CASE WHEN NULL THEN 1 ELSE 2 END AS r, CASE NULL WHEN NULL THEN 1 ELSE 2 END AS s
SELECT CASE WHEN 1 = 1 THEN NULL END AS r
SELECT coalesce(NULL, NULL, 3) AS a, coalesce(NULL, 'x') AS b, coalesce(1, 1 / 0) AS c
SELECT nullif(1, 1) AS a, nullif(1, 2) AS b, nullif(NULL, 1) AS c, nullif('a', 'b') AS d
SELECT greatest(1, NULL, 3) AS a, least(NULL, 2, 1) AS b, greatest('a', 'b') AS c, greatest(NULL, NULL) AS d
SELECT id, coalesce(w, 'none') AS r, coalesce(n, id) AS s FROM words
SELECT id, nullif(w, '') AS r, nullif(n, 1) AS s FROM words
SELECT id, greatest(n, 1) AS r, least(n, id) AS s FROM words
SELECT 1 IS NULL AS a, NULL IS NULL AS b, NULL IS NOT NULL AS c, NULL = NULL AS d
SELECT 1 < 2 AND 2 < 3 AS a, NOT 1 = 2 AS b, NOT NULL AS c, 1 BETWEEN 0 AND NULL AS d
SELECT 1 NOTNULL AS r
SELECT NULL ISNULL AS r
SELECT true IS DISTINCT FROM true AND false AS a, 1 IS DISTINCT FROM NULL OR false AS b
SELECT NOT true IS DISTINCT FROM true AS a, 1 + 1 IS NOT DISTINCT FROM 2 AND true AS b
SELECT true = true IS NULL AS a, 1 < 2 IS TRUE AS b, 1 = 2 IS NOT TRUE AS c
SELECT 1 IN (1, NULL) AS a, 2 IN (1, NULL) AS b, 2 NOT IN (1, NULL) AS c, NULL IN (1) AS d, 1 NOT IN (2) AS e
SELECT num_nulls(1, NULL, 'a') AS r
SELECT num_nonnulls(1, NULL, 'a') AS r
SELECT x FROM (VALUES (1), (NULL)) v(x) WHERE NOT (x IN (1) AND x IN (2))
SELECT x FROM (VALUES (1), (NULL)) v(x) WHERE x NOT IN (2) AND x NOT IN (3)
SELECT x FROM (VALUES (1), (NULL)) v(x) WHERE NOT (x = 1 AND x = 2)
SELECT x FROM (VALUES (1), (2), (NULL)) v(x) WHERE NOT (x IN (1, 2) AND x IN (2, 3))
SELECT x FROM (VALUES (1), (2), (NULL)) v(x) WHERE x IN (1, 2) OR x NOT IN (1, 2)
WITH w AS MATERIALIZED (SELECT x FROM a) SELECT x FROM w WHERE x > 3
WITH w AS NOT MATERIALIZED (SELECT x FROM a), v (y) AS MATERIALIZED (SELECT x FROM w) SELECT y FROM v WHERE y > 3
SELECT id, 1 NOT IN (CASE WHEN id > 2 THEN 2 END, 3) AS r FROM stays ORDER BY id
SELECT id FROM stays WHERE NOT 1 IN (CASE WHEN id > 2 THEN 2 END, 3) ORDER BY id
SELECT id, NOT interval '30 days' IN (CASE WHEN id > 2 THEN interval '1 day' END, interval '31 days') AS r FROM stays ORDER BY id
SELECT id, id + 0 IN (CASE WHEN id > 2 THEN 3 ELSE 1 END, 8) AS r FROM nums ORDER BY id
SELECT id, id + 0 IN (CASE WHEN id > 2 THEN 3 ELSE id END, 8) AS r FROM nums ORDER BY id
SELECT id, id IN (CASE WHEN id > 2 THEN 3 END, 8, 9, 10, 11) AS r FROM nums ORDER BY id
SELECT id, id NOT IN (CASE id WHEN 2 THEN 2 END, 8, 9, 10, 11) AS r FROM nums ORDER BY id
SELECT id, x IN (8, coalesce(y, id, 1), nullif(x, 2), 9) AS r FROM nums ORDER BY id
SELECT id, 2 IN (nullif(CASE WHEN id > 2 THEN 2 END, 5), 3) AS r FROM nums ORDER BY id
SELECT id, (x > 1) IN (y > 10 AND id > 2, d > 3 OR id > 2) AS r FROM nums ORDER BY id
SELECT id, 'a1' IN ('a' || CASE WHEN id > 2 THEN '1' ELSE '2' END, '3') AS r FROM nums ORDER BY id
SELECT id, id + 0 = ANY (ARRAY[CASE WHEN id > 2 THEN 3 ELSE 1 END, 8]) AS r, id + 0 <> ALL (ARRAY[CASE WHEN id > 2 THEN 3 ELSE 1 END, 8]) AS s FROM nums ORDER BY id
SELECT id FROM nums WHERE id + 0 IN (greatest(id, x), least(y, 3)) ORDER BY id
SELECT g, count(*) AS n FROM nums GROUP BY g HAVING count(*) IN (CASE WHEN max(x) > 3 THEN 2 END, 4) ORDER BY g
SELECT id, (id, x) IN ((CASE WHEN id > 2 THEN 3 END, 3), (1, 1)) AS r FROM nums ORDER BY id
