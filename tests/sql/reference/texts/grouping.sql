-- GROUP BY
SELECT g, count(*) AS n FROM nums GROUP BY g
SELECT g, count(x) AS n, sum(x) AS s, avg(x) AS m, min(x) AS lo, max(x) AS hi FROM nums GROUP BY g
SELECT g, y, count(*) AS n FROM nums GROUP BY g, y
SELECT count(*) AS n, sum(x) AS s, avg(x) AS m, min(x) AS lo FROM nums WHERE false
SELECT g, count(*) AS n FROM nums WHERE false GROUP BY g
SELECT count(*) AS n FROM nums GROUP BY ()
SELECT count(*) AS n FROM nums WHERE false GROUP BY ()
SELECT sum(x) AS s FROM nums WHERE id > 8 GROUP BY ()
SELECT x % 2 AS odd, count(*) AS n FROM nums GROUP BY x % 2
SELECT x % 2 AS odd, count(*) AS n FROM nums GROUP BY odd
SELECT x % 2 AS odd, count(*) AS n FROM nums GROUP BY 1
SELECT g, x > 1 AS r, count(*) AS n FROM nums GROUP BY g, x > 1
SELECT g FROM nums GROUP BY g
SELECT upper(g) AS u, count(*) AS n FROM nums GROUP BY upper(g)
SELECT length(g) + 1 AS u FROM nums GROUP BY length(g)
SELECT g || '!' AS u, count(*) AS n FROM nums GROUP BY g
SELECT CASE WHEN x > 1 THEN 'big' ELSE 'small' END AS c, count(*) AS n FROM nums GROUP BY CASE WHEN x > 1 THEN 'big' ELSE 'small' END
SELECT coalesce(g, 'none') AS c, count(*) AS n FROM nums GROUP BY coalesce(g, 'none')
SELECT 1 AS k, count(*) AS n FROM nums GROUP BY 1
SELECT 'all' AS k, count(*) AS n FROM nums WHERE false GROUP BY 1
SELECT count(*) AS n FROM nums GROUP BY g, g
SELECT g, count(*) AS n FROM nums n GROUP BY n.g
SELECT n.g, max(n.x) AS m FROM nums n GROUP BY g
SELECT g, x + y AS z, count(*) AS n FROM nums GROUP BY g, x + y
SELECT g, x, y, x + y AS z FROM nums GROUP BY g, x, y
-- HAVING
SELECT g FROM nums GROUP BY g HAVING count(*) > 1
SELECT g FROM nums GROUP BY g HAVING sum(x) > 3
SELECT g FROM nums GROUP BY g HAVING sum(x) IS NULL
SELECT g FROM nums GROUP BY g HAVING g IS NULL
SELECT g FROM nums GROUP BY g HAVING NOT (max(x) > 2)
SELECT g, count(*) AS n FROM nums GROUP BY g HAVING count(*) FILTER (WHERE x > 1) >= 1
SELECT count(*) AS n FROM nums HAVING count(*) > 100
SELECT count(*) AS n FROM nums HAVING count(*) > 5
SELECT 1 AS one FROM nums HAVING max(x) > 1
SELECT 1 AS one FROM nums WHERE false HAVING count(*) = 0
SELECT g FROM nums GROUP BY g HAVING min(x) = max(x)
SELECT g FROM nums GROUP BY g HAVING avg(x) > (SELECT avg(x) FROM nums)
SELECT g FROM nums GROUP BY g HAVING g IN (SELECT g FROM nums WHERE x = 3)
SELECT g FROM nums n GROUP BY g HAVING EXISTS (SELECT 1 FROM words WHERE w = n.g || 'pple')
-- aggregates
SELECT count(DISTINCT x) AS a, count(DISTINCT g) AS b, sum(DISTINCT x) AS c, avg(DISTINCT x) AS d FROM nums
SELECT g, count(DISTINCT x) AS a, sum(DISTINCT y) AS b FROM nums GROUP BY g
SELECT count(DISTINCT (x, y)) AS n FROM nums
SELECT count(*) FILTER (WHERE x > 1) AS a, sum(x) FILTER (WHERE g = 'a') AS b, max(x) FILTER (WHERE false) AS c FROM nums
SELECT g, count(*) FILTER (WHERE x IS NULL) AS a, count(DISTINCT x) FILTER (WHERE y > 5) AS b FROM nums GROUP BY g
SELECT sum(x + y) AS a, sum(x) + sum(y) AS b, sum(x * 2) AS c, sum(CASE WHEN x > 1 THEN 1 END) AS d FROM nums
SELECT string_agg(g, ',' ORDER BY id) AS a, string_agg(g, '' ORDER BY id DESC) AS b FROM nums
SELECT string_agg(DISTINCT g, ',' ORDER BY g) AS a FROM nums
SELECT g, string_agg(CAST(x AS text), '+' ORDER BY x, id) AS a FROM nums GROUP BY g
SELECT string_agg(w, ', ' ORDER BY w) AS a FROM words WHERE false
SELECT array_agg(x ORDER BY id) AS a, array_agg(x ORDER BY x DESC NULLS LAST, id) AS b FROM nums
SELECT g, array_agg(id ORDER BY id) AS a FROM nums GROUP BY g
SELECT array_agg(DISTINCT x ORDER BY x) AS a FROM nums
SELECT array_agg(x ORDER BY id) FILTER (WHERE x IS NOT NULL) AS a FROM nums
SELECT array_agg(x) AS a FROM nums WHERE false
SELECT bool_and(x > 0) AS r FROM nums
SELECT bool_or(x > 2) AS r FROM nums
SELECT every(x < 100) AS r FROM nums
SELECT bool_and(NULL) AS a, bool_or(x > 2) AS b FROM nums WHERE x IS NULL
SELECT bit_and(x) AS a, bit_or(x) AS b, bit_xor(x) AS c FROM nums
SELECT stddev(x) AS r FROM nums
SELECT stddev_pop(x) AS r FROM nums
SELECT variance(x) AS r FROM nums
SELECT var_pop(x) AS r FROM nums
SELECT stddev_samp(x) AS r FROM nums
SELECT stddev(x) AS a, var_pop(x) AS b FROM nums WHERE id = 1
SELECT corr(x, y) AS a, covar_pop(x, y) AS b, covar_samp(x, y) AS c FROM nums
SELECT regr_slope(y, x) AS a, regr_intercept(y, x) AS b, regr_count(y, x) AS c, regr_r2(y, x) AS d FROM nums
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY d) AS a FROM nums
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT mode() WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC) AS a FROM nums GROUP BY g
SELECT g, percentile_cont(0.3) WITHIN GROUP (ORDER BY y DESC) FILTER (WHERE id < 9) AS a FROM nums GROUP BY g
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS a, percentile_cont(1) WITHIN GROUP (ORDER BY d) AS b FROM nums WHERE id = 7
SELECT percentile_cont(ARRAY[0, 0.25, 1]) WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT dept, percentile_disc(0.5) WITHIN GROUP (ORDER BY salary) AS a FROM emp GROUP BY dept
SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY name DESC) AS a, percentile_disc(0) WITHIN GROUP (ORDER BY hired) AS b FROM emp
SELECT percentile_disc(1) WITHIN GROUP (ORDER BY x) AS a, percentile_disc(0.1) WITHIN GROUP (ORDER BY x) AS b FROM nums
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE y > 4 OR y IS NULL) AS a FROM nums
SELECT percentile_disc(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT percentile_disc(ARRAY[0.25]) WITHIN GROUP (ORDER BY x) AS a FROM nums WHERE id = 7
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS a FROM nums WHERE false
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY opened) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY seen DESC) AS b FROM stays
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY lasted) AS a FROM stays
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY p) AS a, mode() WITHIN GROUP (ORDER BY p DESC) AS b FROM bools
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY budget) AS a, mode() WITHIN GROUP (ORDER BY city) AS b FROM dept
SELECT g, mode() WITHIN GROUP (ORDER BY x DESC) AS a, mode() WITHIN GROUP (ORDER BY d) AS b FROM nums GROUP BY g
SELECT mode() WITHIN GROUP (ORDER BY x) AS a FROM nums WHERE x IS NULL
SELECT mode() WITHIN GROUP (ORDER BY hired) FILTER (WHERE emp.id < 6) AS a, mode() WITHIN GROUP (ORDER BY opened::date) AS b FROM emp, stays
SELECT mode() WITHIN GROUP (ORDER BY x % 2) + 1 AS a FROM nums
SELECT g FROM nums GROUP BY g HAVING mode() WITHIN GROUP (ORDER BY x) > 1 ORDER BY percentile_disc(0.5) WITHIN GROUP (ORDER BY id)
SELECT g, mode() WITHIN GROUP (ORDER BY x) AS a FROM nums GROUP BY ROLLUP (g)
SELECT a.g, (SELECT mode() WITHIN GROUP (ORDER BY b.y) FROM b WHERE b.g = a.g) AS m FROM a
SELECT rank(2) WITHIN GROUP (ORDER BY x) AS a FROM nums
SELECT min(g) AS a, max(g) AS b, min(w) AS c, max(w) AS d FROM nums, words
SELECT min(hired) AS a, max(hired) AS b, max(hired) - min(hired) AS c FROM emp
SELECT min(opened) AS a, max(seen) AS b FROM stays
SELECT sum(d) AS a, avg(d) AS b, min(d) AS c FROM nums
SELECT sum(budget) AS a, avg(budget) AS b, min(budget) AS c FROM dept
SELECT sum(NULL::int) AS a, count(NULL) AS b, max(NULL::text) AS c FROM nums
SELECT count(*) AS a, count(1) AS b, count('x') AS c FROM nums
SELECT avg(x) AS a, sum(x) / count(x) AS b, sum(x) * 1.0 / count(*) AS c FROM nums
SELECT max(x) - min(x) AS a, max(x + 1) AS b, -max(-x) AS c FROM nums
SELECT sum(x) AS a FROM nums WHERE x > 100
SELECT coalesce(sum(x), 0) AS a FROM nums WHERE x > 100
SELECT max(CASE WHEN g = 'a' THEN x END) AS a, max(CASE WHEN g = 'b' THEN x END) AS b FROM nums
SELECT any_value FROM (SELECT max(x) AS any_value FROM nums) i
SELECT bool_or(x > 1 OR NULL) AS b FROM (VALUES (1)) v(x) WHERE false GROUP BY x
-- grouping sets
SELECT g, y, count(*) AS n FROM nums GROUP BY GROUPING SETS ((g), (y))
SELECT g, y, count(*) AS n FROM nums GROUP BY GROUPING SETS ((g, y), (g), ())
SELECT g, y, count(*) AS n FROM nums GROUP BY ROLLUP (g, y)
SELECT g, y, sum(x) AS n FROM nums GROUP BY CUBE (g, y)
SELECT g, count(*) AS n, grouping(g) AS k FROM nums GROUP BY ROLLUP (g)
SELECT g, y, grouping(g, y) AS k, count(*) AS n FROM nums GROUP BY CUBE (g, y)
SELECT g, count(*) AS n FROM nums GROUP BY GROUPING SETS ((g), (g))
SELECT g, y, count(*) AS n FROM nums GROUP BY g, ROLLUP (y)
SELECT g, count(*) AS n FROM nums GROUP BY ROLLUP (g) HAVING grouping(g) = 0
SELECT g, count(*) AS n FROM nums GROUP BY ROLLUP (g) ORDER BY grouping(g), g
SELECT g, y, count(*) AS n FROM nums WHERE false GROUP BY ROLLUP (g, y)
SELECT count(*) AS n FROM nums GROUP BY GROUPING SETS ((), ())
SELECT coalesce(g, 'all') AS k, count(*) AS n FROM nums GROUP BY ROLLUP (g)
SELECT g, y FROM nums GROUP BY ROLLUP ((g, y))
SELECT g, count(*) AS r FROM nums GROUP BY ROLLUP ((g, y))
-- DISTINCT and DISTINCT ON
SELECT DISTINCT g FROM nums
SELECT DISTINCT g, x FROM nums
SELECT DISTINCT x > 1 AS r FROM nums
SELECT DISTINCT count(*) AS n FROM nums GROUP BY g
SELECT DISTINCT g FROM nums ORDER BY g
SELECT DISTINCT g FROM nums ORDER BY g DESC LIMIT 2
SELECT DISTINCT g, x FROM nums ORDER BY x NULLS FIRST, g
SELECT DISTINCT * FROM b
SELECT DISTINCT NULL AS n FROM nums
SELECT DISTINCT d, x FROM nums WHERE x IS NOT NULL
SELECT DISTINCT ON (g) g, id FROM nums ORDER BY g, id
SELECT DISTINCT ON (g) g, id, x FROM nums ORDER BY g, x DESC NULLS LAST, id
SELECT DISTINCT ON (g) id FROM nums ORDER BY g NULLS FIRST, id DESC
SELECT DISTINCT ON (g, x) g, x, id FROM nums ORDER BY g, x, id
SELECT DISTINCT ON (x > 1) x > 1 AS r, id FROM nums ORDER BY x > 1, id
SELECT DISTINCT ON (1) id FROM nums ORDER BY 1
SELECT DISTINCT ON (g) g, id FROM nums ORDER BY g, id LIMIT 2
SELECT DISTINCT ON (dept) dept, name, salary FROM emp ORDER BY dept, salary DESC NULLS LAST, name
SELECT count(*) AS n FROM (SELECT DISTINCT ON (g) g, id FROM nums ORDER BY g, id) i
SELECT ALL g FROM nums
SELECT DISTINCT ON (g) g, x FROM nums ORDER BY g, 1, 2
SELECT DISTINCT ON (g) x AS p, x AS q FROM nums ORDER BY g, 1, 2
SELECT DISTINCT ON (g) g, x FROM nums ORDER BY g, g DESC, x
SELECT DISTINCT ON (g, g) g, x FROM nums ORDER BY g, x, id
SELECT g, array_agg(id ORDER BY x, x, id) AS r FROM nums GROUP BY g
SELECT g, x FROM nums GROUP BY g, x, g ORDER BY g, x, g
SELECT count(*) AS n FROM nums GROUP BY ()
SELECT count(*) AS n FROM nums WHERE false GROUP BY ()
SELECT sum(x) AS s FROM nums WHERE id > 8 GROUP BY () HAVING count(*) > 1
SELECT 1 AS r FROM nums WHERE false GROUP BY ()
SELECT g, x, count(*) AS n FROM nums GROUP BY g, ROLLUP (x) ORDER BY 1, 2, 3
SELECT g, x, y, count(*) AS n FROM nums GROUP BY g, CUBE (x, y) ORDER BY 1, 2, 3, 4
SELECT g, x, count(*) AS n FROM nums GROUP BY ROLLUP (g), ROLLUP (x) ORDER BY 1, 2, 3
SELECT g, x, count(*) AS n FROM nums GROUP BY g, GROUPING SETS ((x), ()) ORDER BY 1, 2, 3
SELECT g, x, count(*) AS n, grouping(x) AS q FROM nums GROUP BY ROLLUP (x), g ORDER BY 1, 2, 3
SELECT g, count(*) AS n FROM nums GROUP BY g, ROLLUP (g) ORDER BY 1, 2
SELECT g, x, count(*) AS n FROM nums GROUP BY g, ROLLUP (g, x) ORDER BY 1, 2, 3
SELECT g, x + 1 AS z, count(*) AS n FROM nums GROUP BY g, ROLLUP (x + 1) ORDER BY 1, 2, 3
SELECT g, x, count(*) AS n FROM nums GROUP BY g, x, ROLLUP (g, x) ORDER BY 1, 2, 3
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE 1 = 0
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE NULL
SELECT count(*) AS n FROM b HAVING false
SELECT count(*) AS n FROM b HAVING 1 = 0
SELECT count(*) AS n FROM b HAVING NULL
SELECT max(y) AS n FROM b HAVING max(y) <> max(y)
SELECT count(*) AS n FROM b HAVING count(*) IS DISTINCT FROM count(*)
SELECT x, (SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE a.x <> a.x) AS n FROM a ORDER BY 1, 2
SELECT x FROM a WHERE x NOT IN (SELECT count(*) AS n FROM b HAVING false) ORDER BY 1
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE n = n + 1
SELECT n FROM (SELECT g, count(*) OVER () AS n FROM b) q WHERE false
SELECT a.x, (SELECT count(*) FROM c WHERE c.g = a.g AND false) AS n FROM a ORDER BY 1, 2
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE (SELECT false)
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE EXISTS (SELECT 1 FROM e)
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE (SELECT count(*) FROM e) > 0
SELECT n FROM (SELECT count(*) AS n FROM b) q WHERE now() < timestamptz '2000-01-01 00:00+00'
SELECT count(*) AS n FROM b HAVING (SELECT false)
SELECT count(*) AS n FROM b HAVING (SELECT count(*) FROM e) > 0
SELECT count(*) AS n FROM b HAVING (SELECT count(*) FROM e) = 0
SELECT count(*) AS n FROM b HAVING EXISTS (SELECT 1 FROM e)
SELECT count(*) AS n FROM b HAVING NOT EXISTS (SELECT 1 FROM b)
SELECT count(*) AS n FROM b HAVING 1 IN (SELECT y FROM e)
SELECT count(*) AS n FROM b HAVING 1 NOT IN (SELECT y FROM b WHERE y = 1)
SELECT count(*) AS n FROM b HAVING count(*) > 1 AND (SELECT max(y) FROM e) > 0
SELECT count(*) AS n FROM b HAVING count(*) > 1 OR (SELECT max(y) FROM e) > 0
SELECT g, count(*) AS n FROM b GROUP BY ROLLUP (g) HAVING (SELECT false)
SELECT g, count(*) AS n FROM b GROUP BY ROLLUP (g) HAVING g IS NULL ORDER BY 2
SELECT g, count(*) AS n FROM b GROUP BY GROUPING SETS ((g), ()) HAVING g = (SELECT min(g) FROM b) ORDER BY 2
SELECT g, count(*) AS n FROM b GROUP BY g HAVING (SELECT false)
SELECT g, n FROM (SELECT g, count(*) AS n FROM b GROUP BY ROLLUP (g)) q WHERE g = 1 ORDER BY 1, 2
SELECT g, n FROM (SELECT g, count(*) AS n FROM b GROUP BY ROLLUP (g)) q WHERE g IS NULL ORDER BY 1, 2
SELECT g, n FROM (SELECT g, count(*) AS n FROM b GROUP BY CUBE (g, y)) q WHERE (SELECT false) ORDER BY 1, 2
SELECT x, (SELECT max(n) FROM (SELECT count(*) AS n FROM b WHERE b.g = a.g) q) AS m FROM a ORDER BY 1, 2
SELECT n FROM (SELECT g, count(*) AS n FROM b GROUP BY ROLLUP (g) ORDER BY n DESC) q WHERE (SELECT true) ORDER BY 1
WITH RECURSIVE r(i) AS (SELECT count(*) FROM b UNION ALL SELECT i - 1 FROM r WHERE i > 4) SELECT i FROM r ORDER BY 1
