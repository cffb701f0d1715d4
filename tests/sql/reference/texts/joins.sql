-- kinds of joins
SELECT a.x, b.y FROM a JOIN b ON a.x = b.y
SELECT a.x, b.y FROM a INNER JOIN b ON a.g = b.g AND a.x < b.y
SELECT a.x, a.g, b.y FROM a LEFT JOIN b ON a.g = b.g
SELECT a.x, a.g, b.y FROM a LEFT JOIN b ON a.g = b.g AND b.y > 1
SELECT a.x, a.g, b.y FROM a LEFT JOIN b ON a.g = b.g AND a.x > 1
SELECT a.x, a.g, b.y FROM a LEFT JOIN b ON a.g = b.g WHERE b.y IS NULL
SELECT a.x, a.g, b.y FROM a LEFT JOIN b ON a.g = b.g WHERE b.y > 1
SELECT a.x, b.y, b.g FROM a RIGHT JOIN b ON a.x = b.y
SELECT a.x, b.y FROM a RIGHT OUTER JOIN b ON a.x = b.y AND a.g = 1
SELECT a.x, b.y FROM a FULL JOIN b ON a.x = b.y
SELECT a.x, b.y FROM a FULL OUTER JOIN b ON a.x = b.y AND a.g = b.g
SELECT a.x, b.y FROM a FULL JOIN b ON a.x = b.y WHERE a.x IS NULL OR b.y IS NULL
SELECT a.x, b.y FROM a FULL JOIN b ON false
SELECT a.x, b.y FROM a LEFT JOIN b ON true
SELECT a.x, b.y FROM a LEFT JOIN b ON NULL
SELECT a.x, b.y FROM a LEFT JOIN e b ON true
SELECT a.x, b.y FROM a CROSS JOIN b WHERE a.x > b.y
SELECT a.x, b.y FROM a, b WHERE a.x = b.y
SELECT a.x, b.y, c.y AS z FROM a, b, c WHERE a.x = b.y AND b.g = c.g
SELECT a.x, b.y FROM a JOIN b ON a.x IS NOT DISTINCT FROM b.y
SELECT a.x, b.y FROM a JOIN b ON a.x IS NOT DISTINCT FROM b.y AND a.g IS NOT DISTINCT FROM b.g
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x IS NOT DISTINCT FROM b.y AND a.g = b.g
SELECT a.x, b.y FROM a JOIN b ON a.x IS DISTINCT FROM b.y AND a.g = b.g
SELECT a.x, b.y FROM a JOIN b ON a.x = b.y OR a.g = b.g
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y OR a.g = b.y
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x <> b.y
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x BETWEEN b.y AND b.y + 1
SELECT a.x, b.y FROM a JOIN b ON a.x + 1 = b.y * 2 - 1
SELECT a.x, b.y FROM a LEFT JOIN b ON coalesce(a.x, 0) = coalesce(b.y, 0)
SELECT l.x, r.x AS rx FROM a l JOIN a r ON l.g = r.g AND l.x < r.x
SELECT l.x, r.x AS rx FROM a l LEFT JOIN a r ON l.x = r.g
SELECT a.x, b.y FROM a JOIN b ON (a.x = b.y) IS NOT FALSE
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x IN (b.y, b.g)
-- several
SELECT a.x, b.y, c.y AS z FROM a LEFT JOIN b ON a.x = b.y LEFT JOIN c ON b.y = c.y
SELECT a.x, b.y, c.y AS z FROM a LEFT JOIN b ON a.x = b.y JOIN c ON b.y = c.y
SELECT a.x, b.y, c.y AS z FROM a LEFT JOIN (b JOIN c ON b.y = c.y) ON a.x = b.y
SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.x = b.y RIGHT JOIN c ON c.y = b.y
SELECT a.x, b.y, c.y AS z FROM a FULL JOIN b ON a.x = b.y FULL JOIN c ON c.y = b.y
SELECT a.x, b.y, c.y AS z FROM a FULL JOIN b ON a.x = b.y LEFT JOIN c ON c.y = coalesce(a.x, b.y)
SELECT a.x, c.y FROM a, b JOIN c ON b.y = c.y WHERE a.x = b.y
SELECT a.x, b.y, c.y AS z FROM (a CROSS JOIN b) LEFT JOIN c ON c.y = a.x AND c.g = b.g
SELECT count(*) AS n FROM a CROSS JOIN b CROSS JOIN c
-- USING and NATURAL
SELECT g, x, y FROM a JOIN b USING (g)
SELECT * FROM a JOIN b USING (g)
SELECT g, x, y FROM a LEFT JOIN b USING (g)
SELECT g, x, y FROM a RIGHT JOIN b USING (g)
SELECT g, x, y FROM a FULL JOIN b USING (g)
SELECT * FROM a FULL JOIN b USING (g)
SELECT g, a.g AS ag, b.g AS bg FROM a FULL JOIN b USING (g)
SELECT g, x, y FROM a NATURAL JOIN b
SELECT * FROM a NATURAL LEFT JOIN b
SELECT * FROM b NATURAL JOIN c
SELECT * FROM b NATURAL FULL JOIN c
SELECT * FROM b JOIN c USING (y, g)
SELECT * FROM b LEFT JOIN c USING (g, y)
SELECT b.y, c.y AS z FROM b JOIN c USING (g)
SELECT g, count(*) AS n FROM a JOIN b USING (g) GROUP BY g
SELECT g FROM a FULL JOIN b USING (g) ORDER BY g, x, y
SELECT * FROM a JOIN b USING (g) JOIN c USING (g)
SELECT g, x FROM a LEFT JOIN b USING (g) WHERE b.g IS NULL
SELECT dept, city, count(*) AS n FROM emp JOIN dept USING (dept) GROUP BY dept, city
SELECT dept, name, city FROM emp FULL JOIN dept USING (dept)
SELECT emp.*, city FROM emp LEFT JOIN dept USING (dept)
SELECT x FROM a JOIN b USING (g) AS j WHERE j.g = 1
SELECT * FROM (a JOIN b USING (g)) AS j
SELECT * FROM (a JOIN b ON a.x = b.y) AS j(p, q, r, s)
-- LATERAL
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g) l
SELECT a.x, l.y FROM a CROSS JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) l
SELECT a.x, l.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) l ON true
SELECT a.x, l.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g) l ON l.y > 1
SELECT a.x, l.y FROM a LEFT JOIN LATERAL (SELECT y FROM c WHERE c.g = a.g ORDER BY y LIMIT 1) l ON true
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM c WHERE c.g = a.g ORDER BY y DESC LIMIT 1) l
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM c WHERE c.g <= a.g ORDER BY y LIMIT 2) l
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM c WHERE c.g <= a.g ORDER BY y OFFSET 1) l
SELECT a.x, l.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) l
SELECT a.x, l.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) l ON true
SELECT a.x, l.m, l.n FROM a, LATERAL (SELECT max(y) AS m, sum(y) AS n FROM b WHERE b.g = a.g) l
SELECT a.x, l.m FROM a, LATERAL (SELECT max(y) AS m FROM b WHERE b.g = a.g GROUP BY b.g) l
SELECT a.x, l.m FROM a LEFT JOIN LATERAL (SELECT max(y) AS m FROM b WHERE b.g = a.g HAVING count(*) > 1) l ON true
SELECT a.x, l.z FROM a, LATERAL (SELECT a.x + 1 AS z) l
SELECT a.x, l.z FROM a, LATERAL (SELECT a.x + y AS z FROM c) l
SELECT a.x, l.z FROM a, LATERAL (VALUES (a.x), (a.g)) l(z)
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM b WHERE b.g = a.g UNION ALL SELECT y FROM c WHERE c.g = a.g) l
SELECT a.x, l.y FROM a, LATERAL (SELECT DISTINCT y FROM b WHERE b.g = a.g) l
SELECT a.x, l.y, l.r FROM a, LATERAL (SELECT y, row_number() OVER (ORDER BY y) AS r FROM c WHERE c.g = a.g) l
SELECT a.x, l.y, l.s FROM a, LATERAL (SELECT y, sum(y) OVER () AS s FROM c WHERE c.g <= a.g) l
SELECT a.x, l.y FROM a, LATERAL (SELECT y FROM b WHERE b.y < a.x) l
SELECT a.x, l.y FROM a JOIN LATERAL (SELECT y, g FROM c WHERE c.y > a.x) l ON l.g = a.g
SELECT a.x, l.y, k.z FROM a, LATERAL (SELECT y FROM c WHERE c.g = a.g) l, LATERAL (SELECT l.y + a.x AS z) k
SELECT a.x, l.y FROM a, LATERAL (SELECT c.y FROM c LEFT JOIN b ON b.g = c.g AND b.y = a.x) l WHERE a.x = 1
SELECT emp.name, l.n FROM emp, LATERAL (SELECT count(*) AS n FROM emp r WHERE r.boss = emp.id) l
SELECT d.city, l.name FROM dept d LEFT JOIN LATERAL (SELECT name FROM emp WHERE emp.dept = d.dept ORDER BY salary DESC NULLS LAST, name LIMIT 2) l ON true
SELECT id, u.v FROM lists, LATERAL unnest(l) u(v)
SELECT id, u.v FROM lists, unnest(l) u(v)
SELECT id, v FROM lists CROSS JOIN unnest(l) AS v
SELECT id, u.v FROM lists LEFT JOIN LATERAL unnest(l) u(v) ON true
SELECT id, u.v, u.n FROM lists, unnest(l) WITH ORDINALITY u(v, n)
SELECT id, u.p, u.q FROM lists, unnest(l, t) u(p, q)
SELECT id, u.v FROM lists, unnest(t) u(v) WHERE u.v <> 'b'
SELECT id, s.n FROM lists, generate_series(1, id) s(n)
SELECT id, s FROM lists, generate_series(1, id) s
SELECT s.n FROM generate_series(1, 10, 3) s(n)
SELECT s.n FROM generate_series(3, 1, -1) s(n)
SELECT s.n FROM generate_series(3, 1) s(n)
SELECT u.v FROM unnest(ARRAY[1, 2, NULL]) u(v)
SELECT u.v, u.n FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY u(v, n)
SELECT unnest(ARRAY[1, 2]) AS v
SELECT id, unnest(l) AS v FROM lists
SELECT id, unnest(l) AS v FROM lists ORDER BY id, v
SELECT v, count(*) AS n FROM (SELECT unnest(t) AS v FROM lists) i GROUP BY v
-- with groups and subqueries
SELECT d.city, count(emp.id) AS n, sum(emp.salary) AS s FROM dept d LEFT JOIN emp ON emp.dept = d.dept GROUP BY d.city
SELECT d.city, count(*) AS n FROM dept d LEFT JOIN emp ON emp.dept = d.dept GROUP BY d.city HAVING count(emp.id) = 0
SELECT l.name, r.name AS boss FROM emp l LEFT JOIN emp r ON l.boss = r.id
SELECT l.name FROM emp l LEFT JOIN emp r ON r.boss = l.id WHERE r.id IS NULL
SELECT l.name, r.name AS other FROM emp l JOIN emp r ON l.hired = r.hired AND l.id < r.id
SELECT a.x, i.m FROM a LEFT JOIN (SELECT g, max(y) AS m FROM b GROUP BY g) i ON i.g = a.g
SELECT a.x, i.n FROM a LEFT JOIN (SELECT g, 1 AS n FROM b) i ON i.g = a.g
SELECT a.x, coalesce(i.n, 0) AS n FROM a LEFT JOIN (SELECT y, count(*) AS n FROM b GROUP BY y) i ON i.y = a.x
SELECT a.x FROM a JOIN (SELECT DISTINCT g FROM b) i USING (g) WHERE a.x > 1
SELECT a.x, b.y FROM a LEFT JOIN b ON a.g = b.g AND b.y = (SELECT max(y) FROM b)
SELECT a.x, b.y FROM a LEFT JOIN b ON a.g = b.g AND b.y IN (SELECT y FROM c)
SELECT a.x, c.y FROM a LEFT JOIN c ON c.g = a.g AND EXISTS (SELECT 1 FROM b WHERE b.y = c.y)
SELECT a.x, c.y FROM a JOIN c ON c.g = a.g AND NOT EXISTS (SELECT 1 FROM b WHERE b.y = a.x)
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y WHERE b.y IS NOT NULL OR a.x > 3
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y WHERE coalesce(b.y, 0) = 0
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y WHERE NOT (b.y = 1)
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y WHERE (b.y = 1) IS NOT TRUE
SELECT a.x, b.y FROM a FULL JOIN b ON a.x = b.y WHERE a.g = 1
SELECT a.x, b.y FROM a FULL JOIN b ON a.x = b.y ORDER BY a.x NULLS FIRST, b.y, a.g, b.g LIMIT 5
SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y ORDER BY a.x, a.g, b.y LIMIT 3
SELECT DISTINCT a.g FROM a JOIN b ON a.g >= b.g
SELECT s.id, n.id AS nid FROM stays s JOIN nums n ON s.id = n.x
SELECT s.id, n.id AS nid FROM stays s JOIN nums n ON s.id = n.d
SELECT s.id, e.id AS eid FROM stays s LEFT JOIN emp e ON e.hired < s.arrives AND e.name = s.guest
SELECT s.id, e.id AS eid FROM stays s JOIN emp e ON e.hired BETWEEN s.arrives AND s.leaves
-- null-safe conditions beside others in a chain of joins
SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.g = b.g JOIN c ON c.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON r.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN a r ON r.g IS NOT DISTINCT FROM a.g JOIN b ON a.x = b.y
SELECT a.x, b.y, r.x AS z FROM a JOIN a r ON r.g IS NOT DISTINCT FROM a.g, b WHERE a.x = b.y
SELECT a.x, b.y, r.x AS z FROM a, b, a r WHERE a.g = b.g AND r.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a, b, a r WHERE a.x = b.y AND r.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON NOT (r.g IS DISTINCT FROM a.g)
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON NOT (r.g IS DISTINCT FROM a.g OR r.x < 2)
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON (r.g IS DISTINCT FROM a.g) = false
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON r.g IS DISTINCT FROM a.g
SELECT a.x, l.k, r.k AS m FROM a JOIN v_double l ON l.k = a.x JOIN v_int r ON r.a IS DISTINCT FROM l.a
SELECT a.x, l.k, r.k AS m FROM a JOIN v_text l ON l.k = a.x JOIN v_varchar r ON r.a IS DISTINCT FROM l.b
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON (r.g IS NOT DISTINCT FROM a.g) = true
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON r.g IS NOT DISTINCT FROM a.g AND r.x = a.x
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g AND a.x IS NOT DISTINCT FROM b.y JOIN a r ON r.g = a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g JOIN a r ON r.g + 1 IS NOT DISTINCT FROM a.g + 1
SELECT a.x, b.y, r.x AS z FROM a JOIN b USING (g) JOIN a r ON r.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g LEFT JOIN a r ON r.g IS NOT DISTINCT FROM a.g
SELECT a.x, b.y, r.x AS z FROM a JOIN b ON a.g = b.g LEFT JOIN a r ON r.g IS NOT DISTINCT FROM a.g WHERE r.x > 1
SELECT a.x, b.y, r.x AS z FROM a LEFT JOIN b ON a.g = b.g JOIN a r ON r.g IS NOT DISTINCT FROM a.g
SELECT q.g, r.x FROM (SELECT a.g FROM a JOIN b ON a.g = b.g) q JOIN a r ON r.g IS NOT DISTINCT FROM q.g
SELECT q.x FROM (SELECT a.x, a.g, r.g AS h FROM a JOIN b ON a.g = b.g, a r) q WHERE q.g IS NOT DISTINCT FROM q.h
SELECT q.x FROM (SELECT a.x, a.g IS NOT DISTINCT FROM r.g AS same FROM a JOIN b ON a.g = b.g, a r) q WHERE q.same
SELECT a.g, r.g AS h FROM a JOIN b ON a.g = b.g, a r GROUP BY a.g, r.g HAVING a.g IS NOT DISTINCT FROM r.g
SELECT a.x, l.x AS z FROM a JOIN b ON a.g = b.g, LATERAL (SELECT r.x FROM a r WHERE r.g IS NOT DISTINCT FROM a.g) l
SELECT a.x FROM a JOIN b ON a.g = b.g WHERE EXISTS (SELECT 1 FROM a r WHERE r.g IS NOT DISTINCT FROM a.g AND r.x > 2)
SELECT a.x, l.k, r.k AS m FROM a JOIN v_double l ON l.k = a.x JOIN v_int r ON r.a IS NOT DISTINCT FROM l.a
SELECT a.x, l.k, r.k AS m FROM a JOIN v_text l ON l.k = a.x JOIN v_varchar r ON r.a IS NOT DISTINCT FROM l.b
SELECT a.x, l.k, r.k AS m FROM a JOIN v_date l ON l.k = a.x JOIN v_timestamp r ON r.a::date IS NOT DISTINCT FROM l.a
SELECT a.x, l.k, r.k AS m FROM a JOIN v_interval l ON l.k = a.x JOIN v_interval r ON r.a IS NOT DISTINCT FROM l.a
SELECT a.x, l.k, r.k AS m FROM a JOIN v_ints l ON l.k = a.x JOIN v_ints r ON r.a IS NOT DISTINCT FROM l.a
SELECT a.x, b.y FROM a JOIN b ON a.g = b.g JOIN c ON (c.g, c.y) IS NOT DISTINCT FROM (a.g, b.y)
SELECT count(a.*) AS n FROM a
SELECT count(a.*) AS n FROM a LEFT JOIN c ON a.x = c.y
SELECT count(c.*) AS n FROM a LEFT JOIN c ON a.x = c.y
SELECT count(p.*) AS n FROM a p RIGHT JOIN c ON p.x = c.y
SELECT count(c.*) AS n FROM a JOIN c ON a.x = c.y
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON NULL ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON a.x IS DISTINCT FROM a.x ORDER BY 1, 2
SELECT a.x, q.n FROM (SELECT count(*) AS n FROM b) q RIGHT JOIN a ON a.x <> a.x ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT 7 AS n) q ON NULL ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT 7 AS n FROM b) q ON false ORDER BY 1, 2
WITH w AS (SELECT count(*) AS c0 FROM nums) SELECT t8.c0 FROM w AS t7 LEFT JOIN w AS t8 ON NULL
SELECT t8.c0 FROM (SELECT count(*) AS c0 FROM nums) AS t7 LEFT JOIN (SELECT count(*) AS c0 FROM nums) AS t8 ON t7.c0 = t8.c0 + 1
SELECT a.x, q.n FROM a JOIN (SELECT count(*) AS n FROM b) q ON false
SELECT a.x, q.n FROM a CROSS JOIN (SELECT count(*) AS n FROM b) q WHERE false
SELECT a.x, q.n FROM a CROSS JOIN (SELECT count(*) AS n FROM b) q WHERE q.n IS NULL
SELECT a.x, q.n FROM (SELECT count(*) AS n FROM b) q RIGHT JOIN a ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a FULL JOIN (SELECT count(*) AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON q.n = q.n + 1 ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON q.n IS NULL ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON q.n <> q.n ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT g, count(*) AS n FROM b GROUP BY g) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT DISTINCT count(*) AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b GROUP BY ()) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b GROUP BY GROUPING SETS ((g), ())) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b GROUP BY ROLLUP (g)) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b UNION ALL SELECT 3) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT n FROM (SELECT count(*) AS n FROM b) r) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT string_agg(g::text, ',') AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT coalesce(sum(g), 0) AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b LIMIT 1) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g) q ON a.x IS DISTINCT FROM a.x ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT g, count(*) OVER () AS n FROM b) q ON a.x IS DISTINCT FROM a.x ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT y, g FROM b WHERE false) r ON true LEFT JOIN (SELECT count(*) AS n FROM b) q ON r.y IS DISTINCT FROM r.y ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON false WHERE q.n IS NULL ORDER BY 1, 2
SELECT a.x, count(q.n) AS s FROM a LEFT JOIN (SELECT count(*) AS n FROM b) q ON false GROUP BY a.x ORDER BY 1, 2
SELECT a.x, q.m, r.n FROM a LEFT JOIN (SELECT count(*) AS m FROM b) q ON false LEFT JOIN (SELECT count(*) AS n FROM c) r ON q.m = r.n ORDER BY 1, 2, 3
SELECT a.x, q.n FROM a LEFT JOIN (SELECT r.n FROM (SELECT count(*) AS n FROM b) r CROSS JOIN c) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT max(y) AS n FROM b UNION SELECT count(*) FROM c) q ON false ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN (SELECT count(*) AS n FROM b UNION ALL (SELECT count(*) FROM c) UNION ALL SELECT 1) q ON NULL ORDER BY 1, 2
SELECT a.x, q.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.g = a.g HAVING a.x > 2) q ON true ORDER BY 1, 2
WITH w AS (SELECT count(*) AS n FROM b), z AS (SELECT n FROM w) SELECT x, n FROM a LEFT JOIN z ON NULL ORDER BY 1, 2
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1 JOIN words t4 ON (t1.c IS NULL) = (t4.w IS NULL) ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1 JOIN words t4 ON (t1.c IS NOT NULL) = (t4.w IS NOT NULL) ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1, words t4 WHERE (t1.c IS NULL) = (t4.w IS NULL) ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1, words t4 WHERE (t1.c IS NULL) = (t4.w IS NULL) AND t1.c IS NOT DISTINCT FROM coalesce(t4.w, '') ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1, words t4 WHERE (t1.c IS NULL) = (t4.w = '') ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1, words t4 WHERE (t1.c IS NOT NULL) = (t4.w = '') ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1, words t4 WHERE t1.c + 0 = t4.n ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 JOIN words t4 ON coalesce(t1.c, 1) = coalesce(t4.n, 0) ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 JOIN words t4 ON CASE WHEN t1.c IS NULL THEN 1 ELSE 0 END = coalesce(t4.n, 0) ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 JOIN words t4 ON CASE WHEN t1.c IS NULL THEN 1 ELSE 0 END = CASE WHEN t4.n IS NULL THEN 1 ELSE 0 END ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.n ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 LEFT JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.n ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 RIGHT JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.n ORDER BY 1
SELECT t4.id FROM (SELECT length('') AS c FROM c) t1 FULL JOIN words t4 ON t1.c = t4.n AND (t1.c IS NULL) = (t4.n IS NULL) ORDER BY 1
SELECT t4.id FROM (SELECT NULL AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT nullif('a', 'a') AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT upper(NULL) AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c FROM c) t1 JOIN words t4 ON t1.c IS DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM words t4 WHERE EXISTS (SELECT 1 FROM (SELECT lower('') AS c FROM c) t1 WHERE t1.c IS NOT DISTINCT FROM t4.w) ORDER BY 1
SELECT t4.id FROM words t4 WHERE NOT EXISTS (SELECT 1 FROM (SELECT lower('') AS c FROM c) t1 WHERE t1.c IS NOT DISTINCT FROM t4.w) ORDER BY 1
SELECT t4.id, (SELECT max(t1.c) FROM (SELECT lower('') AS c FROM c) t1 WHERE t1.c IS NOT DISTINCT FROM t4.w) AS m FROM words t4 ORDER BY 1
SELECT t4.id FROM (SELECT DISTINCT lower('') AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT lower('') AS c UNION ALL SELECT 'apple') t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w ORDER BY 1
SELECT t4.id FROM (SELECT count(*) - 5 AS c FROM c) t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.n ORDER BY 1
SELECT t4.k FROM (SELECT date '2024-01-01' + 0 AS c FROM c) t1 JOIN v_date t4 ON t1.c IS NOT DISTINCT FROM t4.a JOIN b ON true ORDER BY 1
WITH t1 AS (SELECT lower('') AS c FROM c) SELECT t4.id FROM t1 JOIN words t4 ON t1.c IS NOT DISTINCT FROM t4.w JOIN words t5 ON t5.n IS NOT DISTINCT FROM t4.n ORDER BY 1
