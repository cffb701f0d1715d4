-- DELETE
DELETE FROM t
DELETE FROM t WHERE k = 1
DELETE FROM t WHERE k > 100
DELETE FROM t WHERE i IS NULL
DELETE FROM t WHERE NOT i > 1
DELETE FROM t WHERE i = NULL
DELETE FROM t WHERE v IN ('a', NULL)
DELETE FROM t WHERE v NOT IN ('a', NULL)
DELETE FROM t WHERE i IS DISTINCT FROM 2 AND k < 5
DELETE FROM t WHERE k IN (SELECT k FROM s)
DELETE FROM t WHERE k NOT IN (SELECT k FROM s)
DELETE FROM t WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL)
DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)
DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)
DELETE FROM t WHERE NOT EXISTS (SELECT count(*) FROM s WHERE s.k = t.k)
DELETE FROM t WHERE i = (SELECT max(i) FROM t)
DELETE FROM t WHERE i = ANY (SELECT i FROM t WHERE v = 'a')
DELETE FROM t WHERE i IN (SELECT i FROM t WHERE v = 'a')
DELETE FROM t WHERE i < ALL (SELECT j FROM s WHERE j IS NOT NULL)
DELETE FROM t WHERE k IN (SELECT k FROM t ORDER BY k LIMIT 2)
DELETE FROM t WHERE (k, i) IN (SELECT 1, 2)
DELETE FROM t WHERE i > (SELECT avg(i) FROM t u WHERE u.v = t.v)
DELETE FROM t WHERE k NOT IN (SELECT min(k) FROM t GROUP BY i)
DELETE FROM t WHERE k IN (SELECT k FROM (SELECT k, row_number() OVER (PARTITION BY i ORDER BY k) AS r FROM t) d WHERE r > 1)
DELETE FROM t WHERE true RETURNING k
DELETE FROM t WHERE i = 2 RETURNING *
DELETE FROM t WHERE i = 2 RETURNING k + 1 AS n, upper(v) AS u
DELETE FROM t USING s WHERE s.k = t.k
DELETE FROM t USING s WHERE s.k = t.k AND s.j > 3 RETURNING t.k, s.j
DELETE FROM t AS x WHERE x.k = 3
DELETE FROM s WHERE k IS NULL OR j IS NULL
DELETE FROM s WHERE k IS NOT DISTINCT FROM NULL
WITH d AS (SELECT k FROM t WHERE i = 2) DELETE FROM t WHERE k IN (SELECT k FROM d)
DELETE FROM stays WHERE closed - opened < interval '1 day'
DELETE FROM stays WHERE lasted < interval '1 month'
DELETE FROM stays WHERE lasted = interval '1 day'
DELETE FROM stays WHERE opened AT TIME ZONE 'America/New_York' = timestamptz '2024-01-01 13:00+00'
DELETE FROM stays WHERE leaves - arrives > 3
DELETE FROM stays WHERE seen < timestamp '2024-03-10 07:00'
DELETE FROM bools WHERE p IS DISTINCT FROM true AND q
DELETE FROM bools WHERE NOT (p AND q)
DELETE FROM words WHERE w LIKE 'a%' AND n > 2
DELETE FROM emp WHERE salary = ANY (SELECT salary FROM emp WHERE dept = 'eng')
DELETE FROM emp WHERE id NOT IN (SELECT boss FROM emp)
DELETE FROM emp WHERE salary < (SELECT avg(salary) FROM emp e WHERE e.dept = emp.dept)
DELETE FROM dept WHERE dept NOT IN (SELECT dept FROM emp)
TRUNCATE t
TRUNCATE TABLE s
-- UPDATE
UPDATE t SET i = 0
UPDATE t SET i = i + 1 WHERE k < 4
UPDATE t SET i = NULL WHERE v = 'a'
UPDATE t SET i = DEFAULT WHERE i IS NULL
UPDATE t SET v = v || '!' WHERE k > 2
UPDATE t SET i = k, k = i + 100 WHERE i IS NOT NULL AND k < 3
UPDATE t SET i = CASE WHEN i > 2 THEN 1 ELSE 2 END
UPDATE t SET (i, v) = (1, 'z') WHERE k = 1
UPDATE t SET i = (SELECT max(j) FROM s)
UPDATE t SET i = (SELECT j FROM s WHERE s.k = t.k)
UPDATE t SET i = (SELECT count(*) FROM s WHERE s.k = t.k)
UPDATE t SET i = coalesce((SELECT j FROM s WHERE s.k = t.k), -1)
UPDATE t SET (i, v) = (SELECT j, w FROM s WHERE s.k = t.k)
UPDATE t SET i = j FROM s WHERE s.k = t.k
UPDATE t SET i = s.j + t.i FROM s WHERE s.k = t.k AND s.j IS NOT NULL
UPDATE t SET v = s.w FROM s WHERE s.k = t.k RETURNING t.k, t.v, s.j
UPDATE t AS x SET i = -1 WHERE x.k = 2 RETURNING x.*
UPDATE t SET i = i * 2 WHERE i > 2 RETURNING k, i
UPDATE t SET i = i WHERE false RETURNING k
UPDATE t SET i = 1 WHERE k IN (SELECT k FROM s)
UPDATE t SET i = 1 WHERE k NOT IN (SELECT k FROM s)
UPDATE t SET i = 1 WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND s.j > 5)
UPDATE t SET i = u.m FROM (SELECT v, max(i) AS m FROM t GROUP BY v) u WHERE u.v = t.v
UPDATE t SET i = r FROM (SELECT k AS kk, row_number() OVER (ORDER BY k DESC) AS r FROM t) u WHERE u.kk = t.k
WITH m AS (SELECT max(i) AS m FROM t) UPDATE t SET i = (SELECT m FROM m) WHERE k = 1
UPDATE emp SET salary = salary * 1.1 WHERE dept = 'eng' RETURNING id, salary
UPDATE emp SET hired = hired + 1 WHERE id < 3
UPDATE stays SET leaves = arrives + 10 WHERE leaves - arrives < 5
UPDATE stays SET lasted = closed - opened
UPDATE stays SET lasted = lasted * 2 WHERE lasted > interval '20 days'
UPDATE stays SET opened = opened + interval '1 month' WHERE id < 4 RETURNING id, opened
UPDATE stays SET seen = opened AT TIME ZONE 'America/New_York'
UPDATE stays SET opened = seen AT TIME ZONE 'America/New_York' WHERE id < 5
UPDATE dept SET budget = budget / 3
UPDATE words SET n = length(w), w = upper(w)
UPDATE nums SET x = x % 2, y = x + y WHERE x IS NOT NULL
UPDATE nums SET d = x, y = NULL WHERE g = 'a'
-- INSERT
INSERT INTO t VALUES (10, 1, 'x')
INSERT INTO t (k) VALUES (10)
INSERT INTO t (v, k) VALUES ('x', 10), (NULL, 11)
INSERT INTO t VALUES (10, DEFAULT, 'x')
INSERT INTO t (k, i) VALUES (10, NULL)
INSERT INTO t SELECT k + 10, i, v FROM t WHERE i = 2
INSERT INTO t SELECT k + 10, j, w FROM s WHERE k IS NOT NULL
INSERT INTO t (k, v) SELECT k + 10, w FROM s WHERE k IS NOT NULL ORDER BY k LIMIT 2
INSERT INTO t VALUES (10, 1, 'x') RETURNING k, v
INSERT INTO t VALUES (10, 1, 'x'), (11, 2, NULL) RETURNING *
INSERT INTO t VALUES (1, 1, 'dup')
INSERT INTO t VALUES (10, 1, 'a'), (10, 2, 'b')
INSERT INTO t VALUES (NULL, 1, 'a')
INSERT INTO t VALUES (1, 1, 'dup') ON CONFLICT DO NOTHING
INSERT INTO t VALUES (1, 1, 'dup'), (10, 1, 'new') ON CONFLICT (k) DO NOTHING RETURNING k
INSERT INTO t VALUES (1, 100, 'dup') ON CONFLICT (k) DO UPDATE SET i = excluded.i
INSERT INTO t VALUES (1, 100, 'dup'), (10, 1, 'n') ON CONFLICT (k) DO UPDATE SET i = t.i + excluded.i, v = excluded.v RETURNING *
INSERT INTO t VALUES (1, 100, 'dup') ON CONFLICT (k) DO UPDATE SET i = 0 WHERE t.i > 100
INSERT INTO t (k, i) SELECT max(k) + 1, count(*) FROM t
INSERT INTO t WITH w AS (SELECT 20 AS k) SELECT k, k, 'w' FROM w
INSERT INTO t (k, v) VALUES (10, 5)
INSERT INTO t (k, i) VALUES ('10', '5')
INSERT INTO t VALUES (10, 2.5, 'x')
INSERT INTO t VALUES (10, 3000000000, 'big')
INSERT INTO t TABLE t
INSERT INTO s DEFAULT VALUES
INSERT INTO s (w) VALUES ('only')
INSERT INTO s SELECT * FROM s
INSERT INTO s SELECT k, i, v FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)
INSERT INTO s SELECT k, i, v FROM t EXCEPT ALL SELECT k, j, w FROM s
INSERT INTO s VALUES (1, NULL, NULL), (NULL, NULL, '') RETURNING w, k
INSERT INTO a SELECT y, g FROM b INTERSECT ALL SELECT y, g FROM c
INSERT INTO emp (id, name, hired) VALUES (8, 'Hal', '2024-02-29') RETURNING hired + 1 AS next
INSERT INTO stays (id, lasted) VALUES (8, interval '1 month 2 days'), (9, '90 minutes')
INSERT INTO stays (id, opened, seen) VALUES (8, '2024-01-05 08:00', '2024-01-05 08:00+02')
INSERT INTO stays (id, lasted) SELECT id + 10, closed - opened FROM stays WHERE id < 4
INSERT INTO dept VALUES ('new', 'Rome', 1.005), ('old', NULL, 2)
INSERT INTO lists VALUES (8, ARRAY[1], NULL), (9, '{}', '{a,b}')
INSERT INTO nums (id, d) VALUES (11, 1e10), (12, 'NaN')
INSERT INTO bools VALUES ('yes', 'f', NULL)
-- MERGE
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.j
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.j IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.w
MERGE INTO t USING (SELECT * FROM s WHERE k IS NOT NULL) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.j, s.w)
MERGE INTO t USING (SELECT * FROM s WHERE k > 1) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = t.i + 1 WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)
MERGE INTO t USING (VALUES (1, 'p'), (20, 'q')) n(k, w) ON t.k = n.k WHEN MATCHED THEN UPDATE SET v = n.w WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.w)
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND t.i > 3 THEN DO NOTHING WHEN MATCHED THEN DELETE
DELETE FROM a WHERE (x, g) NOT IN ((1, 1), (2, 2))
DELETE FROM a WHERE x > ANY (ARRAY[2, NULL])
DELETE FROM a WHERE NOT (x IN (1) AND x IN (2))
UPDATE a SET g = 6 # 3 | 8 WHERE true = x IN (1, 2)
INSERT INTO a SELECT 0, 0
INSERT INTO a SELECT x, x FROM a WHERE x > 3
INSERT INTO a SELECT x + 1, x + 1 FROM a WHERE x > 3 UNION ALL SELECT 7, 7
INSERT INTO a (g, x) SELECT count(*), (SELECT count(*) FROM b) FROM a
INSERT INTO a (g, x) SELECT x::int, x FROM a
INSERT INTO a (g, x) SELECT x AS p, x AS p FROM a
-- null-safe conditions in a chain of joins
DELETE FROM a WHERE x IN (SELECT r.x FROM a r JOIN b ON r.g = b.g JOIN a q ON q.g IS NOT DISTINCT FROM r.g)
INSERT INTO e SELECT a.x, b.g FROM a JOIN b ON a.g = b.g JOIN a r ON r.g IS NOT DISTINCT FROM a.g
UPDATE a SET x = b.y FROM b JOIN (SELECT DISTINCT g FROM c) q ON q.g = b.g WHERE a.g IS NOT DISTINCT FROM b.g AND b.y = 3
INSERT INTO t VALUES (10, 2.5, 'x'), (11, 3, NULL)
INSERT INTO t (k, i) SELECT 10, avg(i) FROM t
INSERT INTO dept (dept, budget) SELECT 'x', 1.005
UPDATE t SET i = 2.5 WHERE k = 1
UPDATE t SET (i, v) = (3.5, 'z') WHERE k = 1
UPDATE t SET i = i * 0.5
UPDATE t SET i = (SELECT avg(j) FROM s WHERE s.k = t.k)
UPDATE t SET i = s.j / 4.0 FROM s WHERE s.k = t.k
UPDATE a SET x = (SELECT avg(y) FROM c WHERE c.y < a.x) WHERE g < 3
UPDATE a SET x = n.d FROM nums n WHERE n.id = a.x
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = 2.5 WHEN NOT MATCHED AND s.k IS NOT NULL THEN INSERT (k, i) VALUES (s.k, 3.5)
UPDATE dept SET budget = 1.005
INSERT INTO t (k, i) SELECT id + 20, d FROM nums ORDER BY id LIMIT 3
INSERT INTO t (k, i) SELECT * FROM (SELECT id + 20, d FROM nums) q
INSERT INTO t (k, i) SELECT id + 20, d FROM nums UNION ALL SELECT 100, 2.5
INSERT INTO t (i, k) VALUES (-0.5, 15.5)
UPDATE stays SET opened = timestamp '2024-01-01 08:00+05' WHERE id = 1
