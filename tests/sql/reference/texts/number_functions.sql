SELECT id, abs(x) AS a, sign(x) AS b, -x AS c, +x AS d FROM nums
SELECT id, round(d) AS r FROM nums
SELECT id, ceil(d) AS r FROM nums
SELECT id, floor(d) AS r FROM nums
SELECT id, trunc(d) AS r FROM nums
SELECT id, sqrt(abs(x)) AS a, power(x, 2) AS b, exp(x) AS c, cbrt(x) AS d FROM nums
SELECT id, mod(y, 3) AS r FROM nums
SELECT id, y % 3 AS r FROM nums
SELECT id, div(y, 3) AS r FROM nums
SELECT id, y / 3 AS r FROM nums
SELECT round(2.5) AS a, round(-2.5) AS b, round(0.5) AS c, round(1.5) AS d, round(3.5) AS e
SELECT round(2.5::double precision) AS r
SELECT round(-2.5::double precision) AS r
SELECT round(0.5::double precision) AS r
SELECT round(1.5::double precision) AS r
SELECT round(2.345, 2) AS a, round(-2.345, 2) AS b, round(1234.5, -2) AS c, round(2.5, 0) AS d
SELECT trunc(2.7) AS a, trunc(-2.7) AS b, trunc(2.347, 2) AS c, trunc(1278, -2) AS d
SELECT ceil(2.1) AS a, ceil(-2.1) AS b, ceiling(2) AS c, floor(2.9) AS d, floor(-2.1) AS e
SELECT abs(-5) AS a, abs(-5.5) AS b, sign(-3) AS c, sign(0) AS d, sign(2.5) AS e
SELECT sqrt(16) AS a, sqrt(2) AS b, cbrt(27) AS c, power(2, 10) AS d, power(2, -1) AS e, power(2, 0.5) AS f
SELECT exp(1) AS a, ln(10) AS b, log(100) AS c, log(2, 8) AS d, log10(1000) AS e
SELECT sin(1) AS a, cos(1) AS b, tan(1) AS c, asin(0.5) AS d, acos(0.5) AS e, atan(1) AS f, atan2(1, 2) AS g
SELECT sinh(1) AS a, cosh(1) AS b, tanh(1) AS c, degrees(pi()) AS d, radians(180) AS e, cot(1) AS f
SELECT pi() AS a, factorial(5) AS b, gcd(12, 18) AS c, lcm(4, 6) AS d
SELECT mod(7, 3) AS a, mod(-7, 3) AS b, mod(7, -3) AS c, mod(7.5, 2) AS d
SELECT 7 / 2 AS a, -7 / 2 AS b, 7 / -2 AS c, 7.0 / 2 AS d, 7 / 2.0 AS e, 7::double precision / 2 AS f
SELECT 1 / 3.0 AS r
SELECT 2 / 3.0 AS r
SELECT 10 / 3::numeric AS r
SELECT 1.0 / 7 AS r
SELECT 0.1 + 0.2 AS a, 0.1 * 3 AS b, 1.10 + 2.20 AS c, 3.0 * 2 AS d, 100 * 1.1 AS e
SELECT 1.5::int AS r
SELECT 2.5::int AS r
SELECT -1.5::int AS r
SELECT 0.5::int AS r
SELECT 2.5::double precision::int AS r
SELECT 3.5::double precision::int AS r
SELECT 1e3 AS a, 1.5e-3 AS b, .5 AS c, 5. AS d
SELECT 'NaN'::double precision = 'NaN'::double precision AS a, 'NaN'::double precision > 1e308 AS b, 'Infinity'::double precision > 1 AS c
SELECT x FROM (VALUES ('NaN'::double precision), (1), (NULL), ('Infinity'), ('-Infinity')) v(x) ORDER BY x
SELECT max(x) AS a, min(x) AS b, sum(x) AS c FROM (VALUES ('NaN'::double precision), (1)) v(x)
SELECT 0.0::double precision = -0.0::double precision AS a, -0.0::double precision AS b
SELECT width_bucket(5, 0, 10, 5) AS r
SELECT width_bucket(-1, 0, 10, 5) AS r
SELECT width_bucket(10, 0, 10, 5) AS r
SELECT greatest(1, 2.5) AS a, least(1, 0.5) AS b, greatest(1, 'Infinity'::double precision) AS c
SELECT 5 & 3 AS r
SELECT 5 | 3 AS r
SELECT 5 # 3 AS r
SELECT ~5 AS r
SELECT 1 << 3 AS r
SELECT 16 >> 2 AS r
SELECT 2 ^ 3 AS r
SELECT 2 ^ 0.5 AS r
SELECT (-2) ^ 2 AS r
SELECT |/ 16 AS r
SELECT ||/ 27 AS r
SELECT @ -5 AS r
SELECT 9223372036854775807 AS a, -9223372036854775808 AS b, 12345678901234567890 AS c
SELECT 123456789012345678901234567890 AS a, 0.1234567890123456789 AS b
SELECT 123456789012345678901234567890 + 1 AS a, 99999999999.99 * 99999999999.99 AS b
SELECT 9223372036854775807::bigint - 1 AS a, 4611686018427387904 * 1 AS b
SELECT sum(v) AS a FROM (VALUES (9223372036854775807), (1)) t(v)
SELECT avg(v) AS a FROM (VALUES (9223372036854775807), (1)) t(v)
SELECT sum(v) AS a, avg(v) AS b FROM (VALUES (2147483647), (2147483647)) t(v)
SELECT sum(v) AS a FROM (VALUES (0.1), (0.2), (0.3)) t(v)
SELECT avg(v) AS a FROM (VALUES (1), (2), (2)) t(v)
SELECT avg(v) AS a FROM (VALUES (1.0), (2.0), (2.0)) t(v)
SELECT count(*) AS n FROM (VALUES (0.1 + 0.2)) t(v) WHERE v = 0.3
SELECT 1 = 1.0 AS r
SELECT 0.3 = 0.1 + 0.2 AS r
SELECT 1.10 = 1.1 AS r
SELECT 1 < 1.5 AS r
SELECT 2 > 1.5::double precision AS r
SELECT budget * 2 AS r FROM dept
SELECT budget / 3 AS r FROM dept
SELECT budget + 0.005 AS r FROM dept
SELECT round(budget / 3, 2) AS r FROM dept
SELECT budget::int AS r FROM dept
SELECT budget::text AS r FROM dept
SELECT budget::double precision AS r FROM dept
SELECT budget % 7 AS r FROM dept
SELECT 1000.50::numeric(12, 2)::text AS r
SELECT 1.10::text AS r
SELECT 1::numeric::text AS r
SELECT 1.5::double precision::text AS r
SELECT 1e20::double precision::text AS r
SELECT 100::text AS r
SELECT (-5)::text AS r
SELECT 0.1::real::text AS r
SELECT 1e-5::double precision::text AS r
SELECT 100000::double precision::text AS r
SELECT '1.50'::numeric AS r
SELECT '1.50'::numeric::text AS r
SELECT 1.0::text AS r
SELECT (1.0 * 2)::text AS r
SELECT (1 / 2.0)::text AS r
SELECT scale(1.50) AS r
SELECT trim_scale(1.500) AS r
SELECT min_scale(1.500) AS r
SELECT random() BETWEEN 0 AND 1 AS a, random() <> random() AS b
SELECT isfinite(date '2024-01-01') AS a
SELECT x, y, x + y AS a, x * y AS b, x - y AS c, y / nullif(x, 0) AS d FROM nums
SELECT id FROM nums WHERE x + 1 = 3 AND y * 2 > 20
SELECT id FROM nums WHERE d = 1.5
SELECT id FROM nums WHERE d IN (0.5, 8)
SELECT id FROM nums WHERE x > 1.5
SELECT id FROM nums WHERE x = 2.0
SELECT id FROM nums WHERE x / 2 = 1
SELECT id FROM nums WHERE x / 2.0 = 1.5
SELECT id FROM nums WHERE x BETWEEN 1.5 AND 3.5
SELECT id FROM nums WHERE round(d) = 2
SELECT id FROM nums WHERE abs(x) = 1
SELECT id FROM nums WHERE x = '2'
SELECT id FROM nums WHERE x IN ('2', '3')
SELECT id FROM nums WHERE d > '1'
SELECT id, to_char(d, '990.00') AS a FROM nums
SELECT x::text || y::text AS a, x::text < y::text AS b FROM nums
SELECT x::boolean AS a, (x > 1)::int AS b FROM nums
SELECT true::int AS a, false::int AS b, 1::boolean AS c, 0::boolean AS d, true::text AS e, 't'::boolean AS f
SELECT 0.1 + 0.2 = 0.3 AS r
SELECT (1 / 2.0)::text AS r, (2.0 / 3)::text AS b, (20000 / 3.0)::text AS c, (1e3 / 7)::text AS d, (0.1 * 0.2)::text AS e, (-1.50 - 2)::text AS f, (10.0 / -3)::text AS g, (100000.5 / 0.0003)::text AS h, (0.0 / 3)::text AS i
SELECT 1.5 * 2 AS r, 2.5 - 1.25 AS b, -(0.5 + 0.5) AS c, 1 - 0.5 * 2 AS d, 3 - (1.5 - 2) AS e
SELECT sum(budget) / count(*) AS r, sum(budget) / 7 AS s FROM dept
SELECT 7 << - 2 AS r, 7 << 2 AS b, -7 >> 1 AS c, 1 << 31 AS d, 1::bigint << 33 AS e
SELECT 7 << ~ 2 AS r
SELECT '1.50'::numeric::text AS r, 1::numeric::text AS b, (1.10)::numeric::text AS c, CAST(CAST(i AS numeric) AS text) AS d, n::numeric::text AS e, f::numeric::text AS g FROM one
SELECT f::numeric || 'x' AS r, CAST('12' AS numeric) || '' AS b FROM few
SELECT 'NaN'::double precision IN ('NaN'::double precision, 1) AS a, 'NaN'::double precision NOT IN (1, 2) AS b, 'NaN'::double precision = 'NaN'::double precision AS c
SELECT id, d / d IN (1, 'NaN'::double precision) AS a FROM (SELECT id, CASE WHEN d = 8 THEN 'NaN'::double precision ELSE d END AS d FROM nums WHERE d <> 0) q ORDER BY id
SELECT d FROM (VALUES ('NaN'::double precision), (1), (NULL)) v(d) WHERE d IN ('NaN', 2)
SELECT d FROM (VALUES ('NaN'::double precision), (1), (NULL)) v(d) WHERE d IN ('NaN'::double precision, 1, 3, 4, 5) ORDER BY d
SELECT d FROM (VALUES ('NaN'::double precision), (1), (NULL)) v(d) WHERE d IN (SELECT 'NaN'::double precision)
SELECT d FROM (VALUES ('NaN'::double precision), (1), (NULL)) v(d) WHERE d NOT IN ('NaN'::double precision) ORDER BY d
SELECT d FROM (VALUES ('NaN'::double precision), (1), (NULL)) v(d) WHERE d = ANY (ARRAY['NaN'::double precision, 5]) ORDER BY d
SELECT var_pop(d) AS a, stddev(d) AS b, var_samp(d) AS c, stddev_pop(d) AS e, avg(d) AS f, sum(d) AS g, max(d) AS h, min(d) AS i FROM (VALUES ('NaN'::double precision), (1), (2)) v(d)
SELECT var_pop(d) AS a, stddev(d) AS b, var_samp(d) AS c, stddev_pop(d) AS e FROM (VALUES ('NaN'::double precision)) v(d)
SELECT var_pop(d) AS a, var_samp(d) AS c, stddev_pop(d) AS e FROM (VALUES ('Infinity'::double precision)) v(d)
SELECT var_pop(d) AS a, var_samp(d) AS c, corr(d, d) AS e FROM (VALUES ('Infinity'::double precision), (1)) v(d)
SELECT g, var_pop(d) AS a, stddev_pop(d) FILTER (WHERE id > 2) AS b, var_pop(x) AS c FROM nums GROUP BY g ORDER BY g
SELECT 2147483647 + 1 AS r
SELECT 9223372036854775807 + 1 AS r
SELECT CAST(32767 AS smallint) + CAST(1 AS smallint) AS r
SELECT k, a * a AS r FROM v_bigint WHERE k = 7
SELECT k, a * a AS r FROM v_int WHERE k = 7
SELECT k, a * a AS r FROM v_smallint WHERE k = 7
SELECT k, a + a AS r FROM v_bigint WHERE k = 7
SELECT k, a - -a AS r FROM v_int WHERE k = 7
SELECT k, a + 1 AS r FROM v_bigint WHERE k = 7
SELECT sum(a) AS r FROM v_bigint
SELECT sum(a) AS r FROM v_bigint WHERE k < 7
SELECT sum(a) OVER (ORDER BY k) AS r FROM v_bigint WHERE k < 7 ORDER BY k
SELECT sum(a) FILTER (WHERE k < 5) AS r FROM v_bigint
SELECT sum(DISTINCT a) AS r FROM v_bigint
SELECT -(-2147483648) AS r
SELECT abs((-2147483648)::int) AS r
SELECT -((-2147483648)::int) AS r
SELECT k, a * 2 + k * 3 AS r FROM v_int WHERE k < 7 ORDER BY k
SELECT k, (a + b) * 2 AS r FROM v_int WHERE k < 7 ORDER BY k
SELECT k, a * b - a AS r FROM v_bigint WHERE k < 7 ORDER BY k
SELECT count(*) + 1 AS r, sum(k) + count(*) AS q FROM v_int
SELECT a + b AS r, sum(a + b) AS s FROM v_bigint WHERE k < 7 GROUP BY a + b ORDER BY a + b
SELECT k FROM v_bigint WHERE a + b > 3 AND k < 7 ORDER BY k
SELECT id, x - lag(x) OVER (ORDER BY id) AS r FROM nums ORDER BY id
SELECT sum(a * b) AS r FROM v_bigint WHERE k < 7
SELECT coalesce(a, 0) * coalesce(b, 0) AS r FROM v_int WHERE k < 7 ORDER BY k
SELECT max(a) - min(a) AS r FROM v_bigint WHERE k < 7
SELECT (SELECT sum(k) FROM v_bigint) * 100 / (SELECT count(*) FROM v_bigint) AS r
SELECT sum(a) / 7 AS r FROM v_bigint WHERE k < 7 AND k <> 3
SELECT sum(a) * 100 / count(*) AS r FROM v_bigint WHERE k < 7
SELECT (SELECT sum(a) FROM v_bigint WHERE k < 7) * 100 / (SELECT count(*) FROM v_bigint) AS r
SELECT s / 7 AS r FROM (SELECT sum(a) AS s FROM v_bigint WHERE k < 7) q
WITH q AS (SELECT sum(a) AS s FROM v_bigint WHERE k < 7) SELECT s / 7 AS r, s % 7 AS m, s * 1.5 AS p FROM q
SELECT sum(n) / 4 AS r FROM (SELECT count(*) AS n FROM a GROUP BY g) q
SELECT sum(n) * 100 / 7 AS r FROM (SELECT g, count(*) AS n FROM a GROUP BY g) q
SELECT sum(count(*)) OVER () / 3 AS r FROM a GROUP BY g
SELECT 100 * count(*) / sum(count(*)) OVER () AS r FROM a GROUP BY g ORDER BY 1
SELECT sum(a) OVER (ORDER BY k) / 7 AS r FROM v_bigint WHERE k < 7 ORDER BY k
SELECT sum(a)::text AS r FROM v_bigint WHERE k < 7
SELECT sum(a) AS r FROM v_bigint
SELECT sum(9223372036854775807) AS r FROM v_bigint
SELECT -sum(a) / 7 AS r FROM v_bigint WHERE k < 7
SELECT coalesce(sum(a), 0) / 7 AS r FROM v_bigint WHERE k < 7
SELECT abs(sum(a)) / 7 AS r FROM v_bigint WHERE k < 7
SELECT (sum(a) + 1) / 7 AS r FROM v_bigint WHERE k < 7
SELECT CASE WHEN count(*) > 0 THEN sum(a) / 7 END AS r FROM v_bigint WHERE k < 7
SELECT round(sum(a) / 7, 2) AS r FROM v_bigint WHERE k < 7
SELECT sum(a) / count(*) AS r FROM v_int WHERE k < 7
SELECT sum(a) / 7 AS r, sum(a) / count(*)::numeric AS q FROM v_int WHERE k < 7
SELECT (SELECT sum(a) FROM v_int WHERE k < 7) / 7 AS r
SELECT sum(a) * 100 AS r FROM v_bigint WHERE k = 7
SELECT sum(a) + sum(a) AS r FROM v_bigint WHERE k = 7
SELECT sum(a) * 100 / 3 AS r FROM v_bigint WHERE k = 7
SELECT -sum(a) * 2 AS r FROM v_bigint WHERE k = 7
SELECT sum(a) - 1 AS r FROM v_bigint WHERE k < 7
SELECT sum(a) OVER () * 100 AS r FROM v_bigint WHERE k = 7
SELECT k, 100 * a / sum(a) OVER () AS r FROM v_bigint WHERE k < 7 ORDER BY k
SELECT k, 100.0 * a / sum(a) OVER () AS r FROM v_bigint WHERE k < 7 ORDER BY k
SELECT k, a * 100 / sum(a) OVER () AS r FROM v_int WHERE k < 7 ORDER BY k
SELECT g, count(*) * 100 / (SELECT sum(n) FROM (SELECT count(*) AS n FROM a GROUP BY g) q) AS r FROM a GROUP BY g ORDER BY 1
SELECT g, round(100 * count(*) / sum(count(*)) OVER (), 1) AS r FROM a GROUP BY g ORDER BY 1
SELECT sum(a * b) / 7 AS r FROM v_bigint WHERE k < 7
SELECT sum(a) % 7 AS r FROM v_bigint WHERE k < 7
SELECT sum(a) / nullif(count(*) - 7, 0) AS r FROM v_bigint WHERE k < 7
SELECT (sum(a) + count(*)) / (sum(b) + 1) AS r FROM v_numeric WHERE k < 7
SELECT sum(budget * 2) / 7 AS r, sum(budget) * 100 / count(*) AS s FROM dept
SELECT CASE WHEN sum(a) > 3 THEN sum(a) * 10 / 3 ELSE 0 END AS r FROM v_bigint WHERE k < 7
SELECT dept FROM dept WHERE budget * 100 / 3 > 5 ORDER BY 1
SELECT sum(a) FILTER (WHERE k < 3) * 100 / sum(a) AS r FROM v_bigint WHERE k < 7
