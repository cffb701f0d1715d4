-- A text a line. A text that ends in ORDER BY must order its rows totally.
-- ranking
SELECT id, row_number() OVER (ORDER BY id) AS r FROM nums
SELECT id, row_number() OVER (ORDER BY id DESC) AS r FROM nums
SELECT id, rank() OVER (ORDER BY x) AS r, dense_rank() OVER (ORDER BY x) AS d FROM nums
SELECT id, rank() OVER (ORDER BY x DESC) AS r, dense_rank() OVER (ORDER BY x DESC NULLS LAST) AS d FROM nums
SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM nums
SELECT id, percent_rank() OVER (ORDER BY x) AS r, cume_dist() OVER (ORDER BY x) AS c FROM nums
SELECT id, ntile(3) OVER (ORDER BY id) AS r FROM nums
SELECT id, ntile(20) OVER (ORDER BY id) AS r FROM nums
SELECT id, rank() OVER () AS r FROM nums
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM nums ORDER BY id
SELECT id, rank() OVER (ORDER BY g, x DESC) AS r FROM nums
-- values of other rows
SELECT id, lag(x) OVER (ORDER BY id) AS a, lead(x) OVER (ORDER BY id) AS b FROM nums
SELECT id, lag(x, 2) OVER (ORDER BY id) AS a, lead(x, 2, 99) OVER (ORDER BY id) AS b FROM nums
SELECT id, lag(x, 0) OVER (ORDER BY id) AS a, lead(x, -1) OVER (ORDER BY id) AS b FROM nums
SELECT id, lag(x, 1, -1) OVER (PARTITION BY g ORDER BY id) AS a FROM nums
SELECT id, lag(g, 1, 'none') OVER (ORDER BY id) AS a FROM nums
SELECT id, first_value(x) OVER (ORDER BY id) AS a, last_value(x) OVER (ORDER BY id) AS b FROM nums
SELECT id, last_value(x) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS b FROM nums
SELECT id, nth_value(x, 2) OVER (ORDER BY id) AS a FROM nums
SELECT id, nth_value(x, 2) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS a FROM nums
SELECT id, first_value(x) OVER (PARTITION BY g ORDER BY x, id) AS a FROM nums
SELECT id, first_value(x) OVER (PARTITION BY g ORDER BY x DESC, id) AS a FROM nums
-- aggregates with a running frame
SELECT id, sum(x) OVER (ORDER BY id) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY x) AS s FROM nums
SELECT id, sum(x) OVER (PARTITION BY g) AS s FROM nums
SELECT id, sum(x) OVER (PARTITION BY g ORDER BY x) AS s FROM nums
SELECT id, sum(x) OVER () AS s, count(*) OVER () AS c, count(x) OVER () AS n FROM nums
SELECT id, avg(x) OVER (PARTITION BY g) AS s, min(y) OVER (PARTITION BY g) AS m FROM nums
SELECT id, count(*) OVER (ORDER BY x) AS c, count(x) OVER (ORDER BY x) AS n FROM nums
SELECT id, max(g) OVER (ORDER BY id) AS m FROM nums
SELECT id, string_agg(g, ',') OVER (ORDER BY id) AS s FROM nums
SELECT id, array_agg(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM nums
SELECT id, bool_and(x > 1) OVER (PARTITION BY g) AS s, bool_or(x > 1) OVER (PARTITION BY g) AS t FROM nums
SELECT id, stddev_samp(x) OVER (PARTITION BY g) AS s FROM nums
SELECT id, sum(d) OVER (ORDER BY id) AS s FROM nums
SELECT id, sum(x) FILTER (WHERE y > 5) OVER (ORDER BY id) AS s FROM nums
SELECT id, count(*) FILTER (WHERE x IS NULL) OVER (PARTITION BY g) AS s FROM nums
-- frames of rows
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY id ROWS 2 PRECEDING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY id ROWS BETWEEN 0 PRECEDING AND 0 FOLLOWING) AS s FROM nums
SELECT id, max(x) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS s FROM nums
SELECT id, first_value(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, last_value(x) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM nums
SELECT id, min(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM nums
-- frames of ranges
SELECT id, sum(x) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN 1.0 PRECEDING AND 0.5 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN -1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x ROWS BETWEEN -1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY arrives RANGE BETWEEN interval '31 days' PRECEDING AND CURRENT ROW) AS s FROM stays
SELECT id, count(*) OVER (ORDER BY arrives RANGE BETWEEN interval '1 month' PRECEDING AND interval '1 month' FOLLOWING) AS s FROM stays
SELECT id, count(*) OVER (ORDER BY opened RANGE BETWEEN interval '1 hour' PRECEDING AND CURRENT ROW) AS s FROM stays
SELECT id, count(*) OVER (ORDER BY seen DESC RANGE BETWEEN interval '1 day' PRECEDING AND interval '1 hour' FOLLOWING) AS s FROM stays
SELECT id, count(*) OVER (ORDER BY opened RANGE BETWEEN interval '-1 hour' PRECEDING AND CURRENT ROW) AS s FROM stays
SELECT id, sum(x) OVER (ORDER BY g RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM nums
SELECT id, count(*) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM nums
-- frames of groups, and exclusion
SELECT id, count(*) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, sum(y) OVER (ORDER BY x DESC GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS s FROM nums
SELECT id, sum(y) OVER (ORDER BY x GROUPS 2 PRECEDING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) AS s FROM nums
SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP) AS s FROM nums
-- named windows
SELECT id, sum(x) OVER w AS s FROM nums WINDOW w AS (ORDER BY id)
SELECT id, sum(x) OVER w AS s, count(*) OVER w AS c FROM nums WINDOW w AS (PARTITION BY g)
SELECT sum(x) OVER w, count(*) OVER w FROM nums WINDOW w AS (PARTITION BY g)
SELECT sum(x) OVER w, avg(x) OVER w, id FROM nums WINDOW w AS (ORDER BY id)
SELECT id, sum(x) OVER w AS s, sum(x) OVER v AS c FROM nums WINDOW w AS (PARTITION BY g), v AS (ORDER BY id)
SELECT id, sum(x) OVER (w ORDER BY id) AS s FROM nums WINDOW w AS (PARTITION BY g)
SELECT id, sum(x) OVER (w) AS s FROM nums WINDOW w AS (PARTITION BY g ORDER BY id)
SELECT id, sum(x) OVER (w ROWS 1 PRECEDING) AS s FROM nums WINDOW w AS (PARTITION BY g ORDER BY id)
SELECT id, sum(x) OVER v AS s FROM nums WINDOW w AS (PARTITION BY g), v AS (w ORDER BY id)
SELECT id, sum(x) OVER u AS s FROM nums WINDOW w AS (PARTITION BY g), v AS (w ORDER BY id), u AS (v ROWS 1 PRECEDING)
SELECT id, rank() OVER (w ORDER BY x DESC) AS s, rank() OVER (w ORDER BY y) AS r FROM nums WINDOW w AS (PARTITION BY g)
SELECT id, sum(x) OVER w AS s FROM nums WINDOW w AS (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
SELECT id, sum(x) OVER "W" AS s FROM nums WINDOW "W" AS (ORDER BY id)
SELECT id, s FROM (SELECT id, sum(x) OVER w AS s FROM nums WINDOW w AS (ORDER BY id)) i WHERE s > 3
-- windows of groups, and groups of windows
SELECT g, sum(x) AS s, rank() OVER (ORDER BY sum(x)) AS r FROM nums GROUP BY g
SELECT g, count(*) AS n, sum(count(*)) OVER (ORDER BY g) AS r FROM nums GROUP BY g
SELECT g, sum(sum(x)) OVER () AS r FROM nums GROUP BY g
SELECT g, max(x) AS m, lag(max(x)) OVER (ORDER BY g) AS l FROM nums GROUP BY g HAVING count(*) > 1
SELECT count(*) OVER () AS n FROM nums GROUP BY g
SELECT g, x, count(*) AS n, rank() OVER (PARTITION BY g ORDER BY count(*) DESC) AS r FROM nums GROUP BY g, x
SELECT g, sum(r) AS s FROM (SELECT g, row_number() OVER (ORDER BY id) AS r FROM nums) i GROUP BY g
SELECT DISTINCT g, count(*) OVER (PARTITION BY g) AS n FROM nums
SELECT DISTINCT rank() OVER (ORDER BY x) AS r FROM nums
SELECT id FROM nums ORDER BY row_number() OVER (ORDER BY x DESC NULLS LAST, id)
SELECT id, x FROM nums ORDER BY sum(x) OVER (PARTITION BY g) NULLS FIRST, id
SELECT id, row_number() OVER (ORDER BY id) AS r FROM nums ORDER BY r DESC LIMIT 3
SELECT id, row_number() OVER (ORDER BY id) AS r FROM nums WHERE x > 1
SELECT id, row_number() OVER (ORDER BY id) + 1 AS r, x * 2 - sum(x) OVER () AS q FROM nums
SELECT id, CASE WHEN row_number() OVER (PARTITION BY g ORDER BY id) = 1 THEN 'first' ELSE 'more' END AS r FROM nums
SELECT id, coalesce(lag(x) OVER (ORDER BY id), 0) AS r FROM nums
SELECT id, x - lag(x) OVER (ORDER BY id) AS r, x - lag(x, 1, x) OVER (ORDER BY id) AS q FROM nums
SELECT id FROM (SELECT id, rank() OVER (PARTITION BY g ORDER BY y DESC NULLS LAST) AS r FROM nums) i WHERE r = 1
SELECT id, sum(x) OVER (PARTITION BY g, y) AS s FROM nums
SELECT id, sum(x) OVER (PARTITION BY x > 1 ORDER BY id) AS s FROM nums
SELECT id, sum(x) OVER (PARTITION BY 1 ORDER BY id) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY 1) AS s FROM nums
SELECT id, sum(1) OVER (ORDER BY id) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY (SELECT 1)) AS s FROM nums
SELECT n.id, sum(c.y) OVER (PARTITION BY n.g ORDER BY n.id, c.y) AS s FROM nums n JOIN c ON c.g = n.x
SELECT id, sum(x) OVER (PARTITION BY g ORDER BY id) AS s FROM nums WHERE id IN (SELECT y FROM c)
SELECT row_number() OVER (ORDER BY id) AS r FROM nums WHERE false
SELECT sum(x) OVER () AS s FROM nums UNION SELECT count(*) OVER () FROM nums
SELECT id, count(DISTINCT g) AS c FROM (SELECT id, g FROM nums) i GROUP BY id
SELECT id, min(hired) OVER (PARTITION BY dept) AS m, hired - lag(hired) OVER (ORDER BY hired, id) AS d FROM emp
SELECT id, closed - lag(opened) OVER (ORDER BY id) AS d FROM stays
SELECT id, max(lasted) OVER (ORDER BY id) > interval '25 hours' AS m FROM stays
SELECT id, rank() OVER (ORDER BY lasted) AS m FROM stays
SELECT id, sum(lasted) OVER (ORDER BY id) AS m FROM stays
-- windows that extend others, their errors, frames
SELECT id FROM nums WINDOW w AS (PARTITION BY g ORDER BY id) ORDER BY sum(x) OVER w, id
SELECT id FROM nums WINDOW w AS (PARTITION BY g) ORDER BY sum(x) OVER (w ORDER BY id DESC), id
SELECT id, sum(x) OVER w AS s FROM (SELECT id, x, count(*) OVER w AS n FROM nums WINDOW w AS (PARTITION BY g)) i WINDOW w AS (PARTITION BY n ORDER BY id)
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) - 1 AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY g GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, sum(x) OVER (ORDER BY x DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM nums
SELECT id, max(x) FILTER (WHERE y > 1) OVER w AS s, row_number() OVER (w ROWS UNBOUNDED PRECEDING) AS r FROM nums WINDOW w AS (PARTITION BY g ORDER BY id)
SELECT g, count(*) AS n, sum(count(*)) OVER (w ORDER BY g) AS t FROM nums GROUP BY g WINDOW w AS (PARTITION BY g > 'a')
WITH q AS (SELECT id, sum(x) OVER (w ORDER BY id) AS s FROM nums WINDOW w AS (PARTITION BY g)) SELECT id, s FROM q WHERE s > 3
SELECT id, sum(x) OVER W AS s FROM nums WINDOW w AS (ORDER BY id)
SELECT id, lag(x, 1, 0.5) OVER (ORDER BY id) AS a, lead(x, 2, -1.25) OVER (ORDER BY id) AS b FROM nums
SELECT k, lag(a, 1, 0.12345) OVER (ORDER BY k) AS r FROM v_numeric
SELECT k, lead(a, 1, 7) OVER (ORDER BY k) AS a, lag(a, 1, -7) OVER (ORDER BY k) AS b FROM v_double
SELECT k, lag(a, 1, 'none') OVER (ORDER BY k) AS r FROM v_text
SELECT id, lead(x + 0.5, 1, 0) OVER (PARTITION BY g ORDER BY id) AS r FROM nums
SELECT id, lag(x, NULL) OVER (ORDER BY id) AS a, lead(x, NULL) OVER (ORDER BY id) AS b, lag(x, NULL, 9) OVER (ORDER BY id) AS c FROM nums ORDER BY id
SELECT id, lag(x, NULL::int) OVER (ORDER BY id) AS a FROM nums ORDER BY id
SELECT id, lag(x, -1) OVER (ORDER BY id) AS a, lead(x, 0) OVER (ORDER BY id) AS b, lead(g, 1 + 1) OVER (ORDER BY id) AS c FROM nums ORDER BY id
SELECT id, nth_value(x, NULL) OVER (ORDER BY id) AS a FROM nums ORDER BY id
SELECT id, lag(x, NULL) OVER w AS a, count(*) OVER w AS n FROM nums WINDOW w AS (ORDER BY id) ORDER BY id
SELECT id, coalesce(lag(g, NULL) OVER (ORDER BY id), 'z') AS a FROM nums ORDER BY id
