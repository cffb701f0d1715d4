-- subqueries of other types, tables, places and names
SELECT id, (SELECT max(n.d) FROM nums n WHERE n.d <= nums.d) AS r FROM nums
SELECT id, EXISTS (SELECT 1 FROM nums n WHERE n.d = nums.d AND n.id <> nums.id) AS r FROM nums
SELECT name, EXISTS (SELECT 1 FROM emp i WHERE i.hired < emp.hired AND i.dept = emp.dept) AS r FROM emp
SELECT id, (SELECT count(*) FROM stays s WHERE s.opened <= stays.opened) AS r FROM stays
SELECT id, (SELECT count(*) FROM stays s WHERE s.seen <= stays.seen) AS r FROM stays
SELECT id, (SELECT count(*) FROM stays s WHERE s.lasted <= stays.lasted) AS r FROM stays
SELECT k, (SELECT count(*) FROM v_bytea i WHERE i.a < v_bytea.b) AS r FROM v_bytea
SELECT k, (SELECT count(*) FROM v_numeric i WHERE i.a < v_numeric.b) AS r FROM v_numeric
SELECT k, (SELECT count(*) FROM v_double i WHERE i.a < v_double.b) AS r FROM v_double
SELECT k, (SELECT count(*) FROM v_real i WHERE i.a < v_real.b) AS r FROM v_real
SELECT k, (SELECT count(*) FROM v_ints i WHERE i.a < v_ints.b) AS r FROM v_ints
SELECT k, (SELECT count(*) FROM v_texts i WHERE i.a = v_texts.b) AS r FROM v_texts
SELECT k, (SELECT count(*) FROM v_time i WHERE i.a < v_time.b) AS r FROM v_time
SELECT k, (SELECT count(*) FROM v_interval i WHERE i.a < v_interval.b) AS r FROM v_interval
SELECT k, (SELECT count(*) FROM v_bool i WHERE i.a < v_bool.b) AS r FROM v_bool
SELECT k, (SELECT count(*) FROM v_date i WHERE i.a < v_date.b) AS r FROM v_date
SELECT x, (SELECT unnest(ARRAY[a.x, a.g])) AS r FROM a WHERE x = 1
SELECT x, g, (SELECT unnest(ARRAY[a.x])) AS r FROM a
SELECT a.* FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g > a.g) ORDER BY x, g
SELECT *, (SELECT max(y) FROM b WHERE b.g = a.g) FROM a
SELECT a.*, b.* FROM a JOIN b USING (g) WHERE a.x < ALL (SELECT y FROM c WHERE c.g = a.g)
SELECT * FROM a NATURAL JOIN b WHERE a.x < ALL (SELECT y FROM c WHERE c.g = a.g)
SELECT * FROM a NATURAL LEFT JOIN b WHERE x < ALL (SELECT y FROM c WHERE c.g = a.g)
SELECT * FROM (VALUES (1, 'p'), (2, 'q'), (NULL, 'r')) v(n, t) WHERE n IN (SELECT y FROM c WHERE c.g = v.n)
SELECT n, (SELECT max(y) FROM c WHERE c.g >= n) AS m FROM (VALUES (1), (2), (NULL)) v(n)
SELECT n, (SELECT count(*) FROM c WHERE c.g < n) AS m FROM generate_series(1, 3) s(n)
WITH w AS (SELECT g, max(x) AS m FROM a GROUP BY g) SELECT g, m, (SELECT count(*) FROM w v WHERE v.m < w.m) AS r FROM w
WITH w AS (SELECT g FROM a), v AS (SELECT g FROM w WHERE g NOT IN (SELECT g FROM b WHERE b.y = w.g)) SELECT count(*) AS n FROM v
SELECT DISTINCT x IN (SELECT y FROM b WHERE b.g = a.g) AS r FROM a
SELECT x FROM a ORDER BY x IN (SELECT y FROM b WHERE b.g = a.g), x, g
SELECT x, g FROM a ORDER BY (SELECT max(y) FROM b WHERE b.g = a.g) DESC NULLS LAST, x, g LIMIT 4
SELECT count(*) AS n, EXISTS (SELECT 1 FROM b WHERE b.g = a.g) AS e FROM a GROUP BY EXISTS (SELECT 1 FROM b WHERE b.g = a.g)
SELECT EXISTS (SELECT 1 FROM b WHERE b.g = a.g) AS e, count(*) AS n FROM a GROUP BY e
SELECT sum(x) OVER (PARTITION BY EXISTS (SELECT 1 FROM b WHERE b.g = a.g)) AS s, x FROM a
SELECT x, lag(x) OVER (ORDER BY (SELECT max(y) FROM b WHERE b.g = a.g), x, g) AS s FROM a
SELECT x FROM a UNION ALL SELECT y FROM b WHERE y NOT IN (SELECT x FROM a WHERE a.g = b.g) ORDER BY 1
SELECT x FROM a ORDER BY x LIMIT (SELECT min(y) + 1 FROM c)
SELECT CASE WHEN g IS NULL THEN 0 WHEN (SELECT count(*) FROM b WHERE b.g = a.g) > 1 THEN 1 ELSE 2 END AS r, x FROM a
SELECT coalesce((SELECT y FROM c WHERE c.g = a.g AND c.y = 5), (SELECT min(y) FROM b WHERE b.g = a.g), -1) AS r, x FROM a
SELECT x, (SELECT (SELECT (SELECT max(e.y) FROM e WHERE e.g = a.g AND e.y < b.y) FROM c WHERE c.g = b.g LIMIT 1) FROM b WHERE b.g = a.g LIMIT 1) AS r FROM a
SELECT x FROM a AS "A" WHERE EXISTS (SELECT 1 FROM b AS "B" WHERE "B".g > "A".g)
SELECT A.X FROM A WHERE EXISTS (SELECT 1 FROM B WHERE B.G > A.G)
SELECT public.a.x FROM public.a WHERE x >= ALL (SELECT y FROM public.b WHERE public.b.g = public.a.g AND y IS NOT NULL)
SELECT x, (SELECT count(*) FROM b WHERE a.g = 1) AS n FROM a
SELECT x, (SELECT a.g + 1 WHERE a.x > 1) AS n FROM a
SELECT x, (SELECT sum(a.x)) AS n FROM a GROUP BY x
SELECT g, (SELECT max(y) FROM b WHERE b.y < sum(a.x)) AS n FROM a GROUP BY g
SELECT g, (SELECT count(*) FROM b WHERE b.y < max(a.x) AND b.g = a.g) AS n FROM a GROUP BY g
SELECT x FROM a WHERE (SELECT count(*) FROM b WHERE b.g = a.g) = (SELECT count(*) FROM c WHERE c.g = a.g)
SELECT x FROM a WHERE x NOT BETWEEN (SELECT min(y) FROM c WHERE c.g = a.g) AND 3
SELECT x FROM a WHERE (x, g) NOT IN (SELECT y, g FROM b WHERE b.g = a.g)
SELECT x FROM a WHERE (x, g) > ALL (SELECT y, g FROM b WHERE b.g = a.g)
SELECT x FROM a WHERE (x IN (SELECT y FROM b)) IS UNKNOWN
SELECT x, (x IN (SELECT y FROM b)) IS NOT TRUE AS r FROM a
SELECT x FROM a WHERE NOT x IN (SELECT y FROM b WHERE b.g = a.g) IS TRUE
SELECT x FROM a WHERE x IN (SELECT y FROM b WHERE b.g = a.g) = (g IN (SELECT g FROM c))
SELECT l.id, u.u FROM lists l CROSS JOIN LATERAL (SELECT unnest(l.l) AS u) u WHERE u.u > 1
SELECT a.x, l.y FROM a CROSS JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g ORDER BY y DESC NULLS LAST LIMIT 1) l
SELECT a.x, l.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g ORDER BY y DESC NULLS LAST LIMIT 1) l ON true
SELECT a.x, l.y, m.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g ORDER BY y LIMIT 1) l ON true LEFT JOIN LATERAL (SELECT c.y FROM c WHERE c.y > l.y ORDER BY y LIMIT 1) m ON true
SELECT a.x, l.n FROM a, LATERAL (SELECT a.x + 1 AS n) l
SELECT a.x, l.n, m.k FROM a, LATERAL (SELECT a.x + 1 AS n) l, LATERAL (SELECT l.n * 2 AS k) m
SELECT a.x, v.n FROM a, LATERAL (VALUES (a.x), (a.g)) v(n)
SELECT a.x, l.* FROM a JOIN LATERAL (SELECT b.y, count(*) AS n FROM b WHERE b.g = a.g GROUP BY b.y) l ON l.n > 1
SELECT dept, (SELECT string_agg(name, ',' ORDER BY name) FROM emp WHERE emp.dept = dept.dept) AS r FROM dept
SELECT dept, ARRAY(SELECT name FROM emp WHERE emp.dept = dept.dept ORDER BY salary DESC NULLS LAST, name) AS r FROM dept
SELECT dept FROM dept WHERE budget > (SELECT sum(salary) FROM emp WHERE emp.dept = dept.dept)
SELECT e.name FROM emp e WHERE e.salary = (SELECT max(salary) FROM emp WHERE dept = e.dept)
SELECT e.name FROM emp e WHERE 2 > (SELECT count(DISTINCT salary) FROM emp i WHERE i.salary > e.salary AND i.dept = e.dept)
SELECT e.name, m.name FROM emp e LEFT JOIN emp m ON m.id = (SELECT boss FROM emp WHERE id = e.id)
SELECT name FROM emp WHERE EXISTS (SELECT 1 FROM emp b WHERE b.boss = emp.id HAVING count(*) > 1)
SELECT name FROM emp e WHERE NOT EXISTS (SELECT 1 FROM dept d WHERE d.dept = e.dept AND NOT EXISTS (SELECT 1 FROM emp x WHERE x.dept = d.dept AND x.salary > e.salary))
DELETE FROM a WHERE x > (SELECT avg(i.x) FROM a i WHERE i.g = a.g)
DELETE FROM a WHERE x IN (SELECT y FROM b WHERE b.g = a.g) OR g IS NULL
DELETE FROM a USING b WHERE a.g = b.g AND NOT EXISTS (SELECT 1 FROM c WHERE c.y = b.y AND c.g = a.g)
UPDATE a SET x = (SELECT max(y) FROM b WHERE b.g = a.g), g = (SELECT count(*) FROM c WHERE c.g = a.g)
UPDATE a SET x = x + 1 WHERE x > ALL (SELECT y FROM b WHERE b.g = a.g AND y IS NOT NULL)
UPDATE a SET (x, g) = (SELECT max(y), min(y) FROM b WHERE b.g = a.g)
UPDATE a SET x = b.y FROM b WHERE b.g = a.g AND b.y = (SELECT min(i.y) FROM b i WHERE i.g = a.g)
INSERT INTO e SELECT x, g FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g OR b.y > a.x)
INSERT INTO e VALUES ((SELECT max(x) FROM a), (SELECT count(*) FROM b WHERE y IN (SELECT x FROM a)))
DELETE FROM a WHERE x > 1 RETURNING x, (SELECT count(*) FROM b WHERE b.g = a.g) AS n
SELECT x FROM a WHERE x = ANY (SELECT y FROM b) AND x <> ALL (SELECT y FROM e) OR g = SOME (SELECT g FROM c WHERE y = a.x)
SELECT g, sum(x) FILTER (WHERE EXISTS (SELECT 1 FROM b WHERE b.y = a.x)) AS s FROM a GROUP BY g
SELECT g, x FROM a WHERE g IN (SELECT g FROM b GROUP BY g HAVING count(*) = (SELECT count(*) FROM c WHERE c.g = b.g))
SELECT g FROM a GROUP BY g HAVING sum(x) > (SELECT avg(y) FROM b WHERE b.g = a.g)
SELECT g, x FROM a GROUP BY GROUPING SETS ((g), (x)) HAVING count(*) > (SELECT min(y) FROM c)
SELECT x FROM a WHERE x = (SELECT x FROM b WHERE b.y = 6)
SELECT x FROM a WHERE EXISTS (SELECT x FROM b WHERE b.g = a.g AND x = y)
SELECT s.id FROM stays s WHERE s.arrives = (SELECT min(arrives) FROM stays t WHERE t.guest = s.guest) OR s.lasted > ALL (SELECT lasted FROM stays t WHERE t.id < s.id)
SELECT x, 3 + (SELECT count(*) FROM b WHERE b.g = a.g)::int * 2 AS r, -(SELECT max(y) FROM b WHERE b.g = a.g) AS m FROM a
SELECT x, 'n=' || (SELECT count(*)::text FROM b WHERE b.g = a.g) AS r FROM a
SELECT (SELECT x FROM a WHERE a.g = 3), (SELECT y FROM b WHERE y = 6) AS q
SELECT x, EXISTS (SELECT 1 FROM b WHERE b.g = a.g) FROM a
SELECT x, (SELECT max(y) FROM b WHERE b.g = a.g) FROM a
SELECT x, ARRAY(SELECT y FROM b WHERE b.g = a.g AND y IS NOT NULL ORDER BY y) FROM a
SELECT x FROM (SELECT x, g FROM a LIMIT 30) t WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
SELECT t.x FROM (SELECT x, g FROM a LIMIT 30) t LEFT JOIN c ON c.g = t.g WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
WITH t AS (SELECT x, g FROM a LIMIT 30) SELECT x FROM t WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
WITH t AS (SELECT x, g FROM a ORDER BY x, g LIMIT 3) SELECT x FROM t WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
SELECT x FROM (SELECT DISTINCT ON (g) x, g FROM a) t WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
SELECT x FROM (SELECT DISTINCT ON (g) x, g FROM a ORDER BY g, x) t WHERE x NOT IN (SELECT y FROM b WHERE b.g = t.g)
SELECT x FROM (SELECT x, g, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM a) t WHERE n = 1 AND x NOT IN (SELECT y FROM b WHERE b.g = t.g)
SELECT count(*) AS n FROM (SELECT x, g, row_number() OVER (PARTITION BY g) AS n FROM a) t WHERE n = 1 AND x NOT IN (SELECT y FROM b WHERE b.g = t.g)
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r WHERE n NOT IN (SELECT y FROM c WHERE c.g = r.n)
SELECT a.x, l.y, m.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g ORDER BY y LIMIT 1) l ON true LEFT JOIN LATERAL (SELECT c.y FROM c WHERE c.y > l.y ORDER BY y LIMIT 1) m ON true
SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT c.y FROM c WHERE c.g = b.g AND c.y > a.x LIMIT 1) l WHERE b.g = a.g)
SELECT x, (SELECT sum(l.y) FROM b, LATERAL (SELECT c.y FROM c WHERE c.g = b.g AND c.y >= a.x ORDER BY c.y LIMIT 1) l) FROM a
SELECT x, (SELECT sum(l.y) FROM b CROSS JOIN LATERAL (SELECT max(c.y) AS y FROM c WHERE c.g = b.g AND c.y >= a.x) l) FROM a
SELECT x, (SELECT count(l.y) FROM b LEFT JOIN LATERAL (SELECT c.y FROM c WHERE c.g = b.g AND c.y >= a.x) l ON true WHERE b.g = a.g) FROM a
SELECT a.g, (SELECT count(*) FROM c WHERE c.g = a.g) FROM a JOIN b ON b.g = a.g GROUP BY a.g
SELECT a.g, (SELECT count(*) FROM c WHERE c.g = b.g) FROM a JOIN b ON b.g = a.g GROUP BY a.g, b.g
SELECT g AS h, (SELECT count(*) FROM c WHERE c.g = a.g) FROM a GROUP BY g
SELECT a.x AS g, (SELECT count(*) FROM c WHERE c.g = a.g) FROM a GROUP BY a.x, a.g
SELECT x, (SELECT count(*) FROM LATERAL (SELECT c.y FROM c WHERE c.y > a.x) l) FROM a
SELECT l.* FROM a, LATERAL (SELECT b.y, m.k FROM b, LATERAL (SELECT count(*) AS k FROM c WHERE c.g = b.g AND c.y > a.x) m WHERE b.g = a.g) l
SELECT g AS x, (SELECT count(*) FROM c WHERE c.g = a.g), (SELECT 1 WHERE a.g > 1) FROM a GROUP BY g
SELECT a.g, (SELECT count(*) FROM c WHERE c.g = g2.g) FROM a JOIN b g2 ON g2.g = a.g GROUP BY 1, g2.g
SELECT g, (SELECT count(*) FROM c WHERE c.y = g) FROM a GROUP BY g
SELECT g, (SELECT count(*) FROM c WHERE c.y = a.g) FROM a JOIN b USING (g) GROUP BY g
SELECT x AS k, (SELECT count(*) FROM c WHERE c.y = a.x) FROM a GROUP BY k
SELECT x, (SELECT sum(l.y) FROM b, LATERAL (SELECT c.y FROM c WHERE c.g = b.g AND c.y >= a.x ORDER BY c.y LIMIT 1) l, LATERAL (SELECT l.y + a.x AS z) m WHERE m.z > 2) FROM a
SELECT x FROM a WHERE x IN (SELECT l.k FROM b, LATERAL (SELECT b.y + a.g AS k UNION ALL SELECT a.x) l)
SELECT x, (SELECT max(u) FROM b, LATERAL unnest(ARRAY[b.y, a.x]) u) FROM a
SELECT o.x, (SELECT count(*) FROM b WHERE b.y <= o.x) FROM (SELECT x FROM a ORDER BY x DESC NULLS LAST LIMIT 3) o ORDER BY 1
WITH o AS (SELECT x, g FROM a ORDER BY x NULLS LAST, g NULLS LAST LIMIT 2 OFFSET 1) SELECT o.x, (SELECT count(*) FROM b WHERE b.y <= o.x) FROM o ORDER BY 1, 2
WITH o AS (SELECT x AS z, sum(g) AS s FROM a GROUP BY x ORDER BY s DESC NULLS LAST, z NULLS LAST LIMIT 2) SELECT q.z, (SELECT count(*) FROM b WHERE b.y <= q.z) FROM o q ORDER BY 1, 2
WITH o(k, m) AS (SELECT x, g FROM a ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 2) SELECT o.k, (SELECT count(*) FROM b WHERE b.y <= o.k) FROM o ORDER BY 1, 2
SELECT x, g FROM a WHERE (x, g) <> ANY (SELECT y, g FROM c)
SELECT x, (x, g) = ALL (SELECT y, g FROM b) AS r FROM a
SELECT g FROM a WHERE x >= ALL (SELECT 0.5 AS c FROM a a2 WHERE a2.g = a.g GROUP BY 1) ORDER BY g
SELECT g FROM a WHERE x > (SELECT 2 AS c FROM a a2 WHERE a2.g = a.g GROUP BY 1) ORDER BY g
SELECT g FROM a WHERE EXISTS (SELECT 2 AS c, x FROM a a2 WHERE a2.g = a.g GROUP BY 1, 2 HAVING count(*) > 0) ORDER BY g
SELECT x, c2 FROM a LEFT JOIN LATERAL (SELECT c2 FROM (SELECT DISTINCT ON (b.g) a.x AS c0, '2024' AS c2 FROM b ORDER BY b.g, 1 DESC) q) r ON true ORDER BY 1, 2
SELECT x, l.y FROM a, LATERAL (SELECT DISTINCT ON (a.g, b.g) b.y FROM b ORDER BY a.g, b.g, b.y) l ORDER BY 1, 2
SELECT x, l.y FROM a, LATERAL (SELECT DISTINCT ON (b.g) b.y FROM b ORDER BY b.g, a.x, a.x DESC, b.y) l ORDER BY 1, 2
SELECT x, (SELECT y FROM (SELECT DISTINCT ON (a.g) b.y FROM b ORDER BY a.g DESC, b.y) q) AS y FROM a ORDER BY 1, 2
SELECT x FROM a WHERE EXISTS (SELECT DISTINCT ON (b.g) a.x AS v, b.y FROM b WHERE b.y = a.x ORDER BY b.g, v) ORDER BY 1
SELECT x, l.c FROM a, LATERAL (SELECT DISTINCT ON (b.g) 'k' AS c, a.x AS v FROM b ORDER BY b.g, c, v, b.y) l ORDER BY 1, 2
SELECT 'a' AS c0 FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y >= ALL (SELECT t7.x FROM dept AS t8)) ORDER BY 1
SELECT t0.g, t0.y FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y >= t7.x) ORDER BY 1, 2
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE t7.x = t0.g AND t0.y >= ALL (SELECT t7.x FROM dept AS t8)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y >= ANY (SELECT t7.x FROM dept AS t8)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y IN (SELECT t7.x FROM dept AS t8)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE EXISTS (SELECT 1 FROM a AS t8 WHERE t8.x > t7.x AND t0.y > 1)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y >= ALL (SELECT t8.x FROM a AS t8)) ORDER BY 1
SELECT t7.x FROM nums AS t7 WHERE 3 >= ALL (SELECT t7.x FROM dept AS t8) ORDER BY 1
SELECT t7.x FROM nums AS t7 WHERE NOT EXISTS (SELECT 1 FROM dept AS t8 WHERE 3 < t7.x) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE t0.g IN (SELECT t7.x FROM nums AS t7 WHERE t0.y > ANY (SELECT t8.x FROM a AS t8 WHERE t8.x >= t7.x)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE t0.y <> ALL (SELECT t8.x FROM a AS t8 WHERE t8.x >= t7.x)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE t0.y NOT IN (SELECT t8.x FROM a AS t8 WHERE t8.x >= t7.x)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE NOT EXISTS (SELECT 1 FROM nums AS t7 WHERE t0.y < ALL (SELECT t7.x FROM dept AS t8)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE (t0.y IN (SELECT t7.x FROM dept AS t8)) IS NOT TRUE) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE t0.y > (SELECT max(t8.x) FROM a AS t8 WHERE t8.x >= t7.x)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE t7.x + t0.y = (SELECT count(*) FROM a AS t8 WHERE t8.x >= t7.x AND t8.x < t0.y)) ORDER BY 1
SELECT t0.g FROM b AS t0 WHERE EXISTS (SELECT 1 FROM nums AS t7 WHERE (t0.y, t7.x) IN (SELECT t8.x, t8.x FROM a AS t8 WHERE t8.x >= t7.x)) ORDER BY 1
SELECT t0.g, (SELECT count(*) FROM nums AS t7 WHERE t0.y >= ALL (SELECT t7.x FROM dept AS t8)) AS c FROM b AS t0 ORDER BY 1, 2
