SELECT 1 AS a, -2 AS b, 'text' AS c, true AS d
SELECT NULL::int4 AS a, NULL::text AS b, NULL::bool AS c
SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c
SELECT 32767::int2 AS a, 2147483647::int4 AS b, 9223372036854775807::int8 AS c
SELECT 1.5::float8 AS a, -0.25::float4 AS b, 1e300::float8 AS c
SELECT 'NaN'::float8 AS a, 'Infinity'::float8 AS b, '-Infinity'::float8 AS c
SELECT 1.25::numeric(10,3) AS a, -0.001::numeric(20,6) AS b, 0::numeric(5,2) AS c
SELECT 12345678901234567890::numeric(38,4) AS a
SELECT true AS a, false AS b, NOT true AS c, true AND NULL AS d, true OR NULL AS e
SELECT 'a' AS a, '' AS b, 'ünï ✓' AS c, 'it''s' AS d
SELECT E'a\nb' AS a, E'tab\tx' AS b
SELECT date '2024-02-29' AS a, date '1969-12-31' AS b, date '0001-01-01' AS c
SELECT timestamp '2024-02-29 12:00:00.123456' AS a, timestamp '1969-12-31 23:59:59.999999' AS b
SELECT timestamptz '2024-02-29 12:00:00+00' AS a, timestamptz '2024-02-29 12:00:00+02' AS b
SELECT time '23:59:59.5' AS a, time '00:00:00' AS b
SELECT interval '3 days' AS a, interval '2 hours' AS b, interval '1 month' AS c
SELECT interval '1 day 1 second' AS a
SELECT '\x00ff'::bytea AS a
SELECT ARRAY[1, 2, 3] AS a, ARRAY['a', NULL, 'b,c'] AS b
SELECT ARRAY[[1, 2], [3, 4]] AS a
SELECT '550e8400-e29b-41d4-a716-446655440000'::uuid::text AS a
SELECT 1 + 2 AS a, 7 - 10 AS b, 3 * 4 AS c, 7 / 2 AS d, 7 % 3 AS e
SELECT -7 / 2 AS a, -7 % 3 AS b
SELECT 7.0 / 2 = 3.5 AS a, 1 = 1.0 AS b
SELECT 2 < 3 AS a, 2 <> 2 AS b, 'a' < 'b' AS c, 'B' < 'a' AS d
SELECT NULL = NULL AS a, NULL IS NULL AS b, 1 IS DISTINCT FROM NULL AS c
SELECT 1 IN (1, 2) AS a, 3 IN (1, NULL) AS b, 3 NOT IN (1, 2) AS c
SELECT 2 BETWEEN 1 AND 3 AS a, 2 NOT BETWEEN 3 AND 4 AS b
SELECT 'abc' LIKE 'a%' AS a, 'abc' LIKE '_b_' AS b, 'ABC' ILIKE 'a%' AS c, 'abc' NOT LIKE 'b%' AS d
SELECT 'a%c' LIKE 'a\%c' AS a
SELECT 'abc' ~ '^a' AS a, 'abc' !~ 'z' AS b
SELECT CASE WHEN 1 = 1 THEN 'x' ELSE 'y' END AS a, CASE 2 WHEN 1 THEN 'a' END AS b
SELECT coalesce(NULL, NULL, 'c') AS a, nullif(1, 1) AS b, nullif(2, 1) AS c
SELECT greatest(1, 3, 2) AS a, least(1, NULL, 2) AS b
SELECT lower('ABC') AS a, upper('abc') AS b, length('ünï') AS c, char_length('abc') AS d
SELECT substr('hello', 2, 3) AS a, substring('hello' FROM 2 FOR 2) AS b, left('abc', 2) AS c, right('abc', 2) AS d
SELECT replace('aXb', 'X', '-') AS a, 'a' || 'b' AS b, 'a' || NULL AS c
SELECT trim('  a ') AS a, ltrim('xxa', 'x') AS b, rtrim('axx', 'x') AS c, btrim('xax', 'x') AS d
SELECT position('b' IN 'abc') AS a, strpos('abc', 'z') AS b
SELECT repeat('ab', 3) AS a, reverse('abc') AS b, lpad('7', 3, '0') AS c, rpad('7', 3, '0') AS d
SELECT split_part('a,b,c', ',', 2) AS a, initcap('hello world') AS b
SELECT concat('a', NULL, 'b') AS a, concat_ws('-', 'a', NULL, 'b') AS b
SELECT ascii('A') AS a, chr(66) AS b, md5('a') AS c
SELECT octet_length('ü') AS a, bit_length('a') AS b
SELECT starts_with('abc', 'ab') AS a
SELECT translate('abc', 'ab', 'xy') AS a
SELECT abs(-3) AS a, sign(-2.0::float8) AS b, ceil(1.2::float8) AS c, floor(-1.2::float8) AS d
SELECT round(2.5::float8) AS a, trunc(2.7::float8) AS b
SELECT sqrt(16::float8) AS a, power(2::float8, 10::float8) AS b, exp(0::float8) AS c, ln(1::float8) AS d
SELECT extract(year FROM date '2024-02-29')::int4 AS a, extract(month FROM timestamp '2024-02-29 01:02:03')::int4 AS b
SELECT extract(hour FROM timestamp '2024-02-29 01:02:03')::int4 AS a, extract(minute FROM timestamp '2024-02-29 01:02:03')::int4 AS b
SELECT date_trunc('month', timestamp '2024-02-29 01:02:03') AS a, date_trunc('hour', timestamp '2024-02-29 01:02:03') AS b
SELECT date '2024-01-31' + 1 AS a, date '2024-03-01' - date '2024-02-01' AS b
SELECT timestamp '2024-01-31 00:00:00' + interval '1 day' AS a, timestamp '2024-01-31 00:00:00' - interval '1 hour' AS b
SELECT date '2024-01-31' < date '2024-02-01' AS a
SELECT CAST('42' AS int4) AS a, CAST(42 AS text) AS b, CAST('2024-01-02' AS date) AS c
SELECT CAST(true AS text) AS a, CAST('t' AS bool) AS b, CAST(1 AS bool) AS c
SELECT '1'::int4 + 1 AS a, 1.9::float8::int4 AS b
SELECT a, b FROM small ORDER BY a
SELECT a FROM small ORDER BY a DESC
SELECT a, b FROM small ORDER BY b, a
SELECT a, b FROM small ORDER BY b DESC, a
SELECT a, b FROM small ORDER BY b NULLS FIRST, a
SELECT a, b FROM small ORDER BY b DESC NULLS LAST, a DESC
SELECT a AS x FROM small ORDER BY x
SELECT a FROM small ORDER BY a % 2, a
SELECT a FROM small ORDER BY 1 LIMIT 2
SELECT a FROM small ORDER BY a LIMIT 2 OFFSET 1
SELECT a FROM small ORDER BY a OFFSET 3
SELECT a FROM small ORDER BY a FETCH FIRST 2 ROWS ONLY
SELECT a FROM small WHERE a < 0
SELECT a, b FROM small WHERE false
SELECT count(*) AS n FROM small WHERE a < 0
SELECT sum(a) AS a, min(b) AS b, max(d) AS c FROM small WHERE false
SELECT count(*) AS n, count(b) AS m, count(DISTINCT b) AS k FROM small
SELECT sum(a) AS s, min(a) AS x, max(a) AS y FROM small
SELECT min(b) AS x, max(b) AS y FROM small
SELECT min(d) AS x, max(d) AS y FROM small
SELECT avg(x) AS m FROM small WHERE a IN (1, 2)
SELECT bool_and(f) AS a, bool_or(f) AS b FROM small
SELECT string_agg(b, ',' ORDER BY b) AS a FROM small
SELECT array_agg(a ORDER BY a DESC) AS a FROM small
SELECT b, count(*) AS n FROM small GROUP BY b ORDER BY b
SELECT b, count(*) AS n FROM small GROUP BY b HAVING count(*) > 1 ORDER BY b
SELECT b, count(*) AS n FROM small GROUP BY 1 ORDER BY 2 DESC, 1
SELECT a % 2 AS p, sum(a) AS s FROM small GROUP BY a % 2 ORDER BY p
SELECT count(*) FILTER (WHERE a > 2) AS n FROM small
SELECT f, b, count(*) AS n FROM small GROUP BY ROLLUP (f, b) ORDER BY f NULLS LAST, b NULLS LAST, n
SELECT DISTINCT b FROM small ORDER BY b
SELECT DISTINCT f, b FROM small ORDER BY f, b
SELECT DISTINCT ON (b) b, a FROM small ORDER BY b, a
SELECT x.a, y.a AS z FROM small x JOIN small y ON x.a = y.a + 1 ORDER BY 1
SELECT x.a, y.a AS z FROM small x LEFT JOIN small y ON x.a = y.a + 3 ORDER BY 1
SELECT x.a, y.a AS z FROM small x RIGHT JOIN small y ON x.a = y.a + 3 ORDER BY 2
SELECT x.a, y.a AS z FROM small x FULL JOIN small y ON x.a = y.a + 3 ORDER BY 1, 2
SELECT count(*) AS n FROM small x CROSS JOIN small y
SELECT a FROM small x JOIN small y USING (a) ORDER BY a
SELECT a FROM small WHERE a = (SELECT max(a) FROM small)
SELECT a FROM small x WHERE EXISTS (SELECT 1 FROM small y WHERE y.a = x.a + 1) ORDER BY a
SELECT a FROM small WHERE a NOT IN (SELECT a FROM small WHERE a > 2) ORDER BY a
SELECT a FROM small WHERE b = ANY(ARRAY['x', 'y']) ORDER BY a
SELECT a FROM (SELECT a, b FROM small) AS q WHERE b IS NULL ORDER BY a
WITH q AS (SELECT a FROM small WHERE a > 2) SELECT * FROM q ORDER BY a
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r ORDER BY n
SELECT a FROM small WHERE a < 3 UNION SELECT a FROM small WHERE a < 2 ORDER BY a
SELECT a FROM small WHERE a < 3 UNION ALL SELECT a FROM small WHERE a < 2 ORDER BY a
SELECT a FROM small INTERSECT SELECT a FROM small WHERE a > 3 ORDER BY a
SELECT a FROM small EXCEPT SELECT a FROM small WHERE a > 3 ORDER BY a
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(n, s) ORDER BY n
SELECT a, row_number() OVER (ORDER BY a DESC) AS n FROM small ORDER BY a
SELECT a, rank() OVER (ORDER BY b) AS n FROM small ORDER BY a
SELECT a, dense_rank() OVER (ORDER BY b) AS n FROM small ORDER BY a
SELECT a, lag(a) OVER (ORDER BY a) AS p, lead(a, 2) OVER (ORDER BY a) AS q FROM small ORDER BY a
SELECT a, sum(a) OVER (PARTITION BY b ORDER BY a) AS s FROM small ORDER BY a
SELECT a, sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM small ORDER BY a
SELECT a, first_value(b) OVER (ORDER BY a) AS v FROM small ORDER BY a
SELECT a, ntile(2) OVER (ORDER BY a) AS n FROM small ORDER BY a
SELECT "Mixed Case", "select" FROM "Odd Names" ORDER BY 1
SELECT "Odd Names"."quote""d" AS q FROM "Odd Names" ORDER BY 1
SELECT a AS "A b", b AS "select" FROM small WHERE a = 1
SELECT o."Mixed Case" AS "Übung" FROM "Odd Names" AS o ORDER BY 1
SELECT public.small.a FROM public.small ORDER BY 1
SELECT * FROM small ORDER BY a
SELECT s.* FROM small AS s WHERE s.a = 1
SELECT a IS NULL AS p, b IS NOT NULL AS q FROM small ORDER BY a
SELECT f IS TRUE AS p, f IS NOT FALSE AS q FROM small ORDER BY a
SELECT tags FROM small ORDER BY a
SELECT tags[1] AS t FROM small ORDER BY a
SELECT cardinality(tags) AS n FROM small WHERE tags IS NOT NULL ORDER BY a
SELECT array_length(ARRAY[1, 2, 3], 1) AS a, array_position(ARRAY['a', 'b'], 'b') AS b
SELECT unnest(ARRAY[3, 1, 2]) AS u ORDER BY u
SELECT 2 = ANY(ARRAY[1, 2]) AS a, 5 = ANY(ARRAY[1, 2]) AS b
SELECT array_to_string(ARRAY['a', 'b'], '-') AS a, string_to_array('a,b', ',') AS b
SELECT array_append(ARRAY[1], 2) AS a, array_cat(ARRAY[1], ARRAY[2]) AS b
SELECT generate_series AS n FROM generate_series(1, 4) ORDER BY 1
SELECT d, ts FROM small ORDER BY a
SELECT d FROM small WHERE d >= date '2024-01-02' ORDER BY d
SELECT count(*) AS n FROM small WHERE ts > timestamp '2024-01-01 00:00:00'
SELECT n FROM small ORDER BY a
SELECT sum(n)::numeric(20, 2) AS s FROM small
SELECT x FROM small ORDER BY a
SELECT a FROM small WHERE n > 0.123456789012345678 ORDER BY a
SELECT n + 0.01 + 0.005 AS v, n * 0.15 AS w, n - 1.1234567890 AS x FROM small ORDER BY a
SELECT v + 0.12345678901 > 0 AS a, v * 1.00000000 > 0 AS b, v * 1e8 > 0 AS c, v > 0.12 AS d FROM (SELECT 123456789012345678901234567890.12::numeric(38,2) AS v) AS q
-- errors
SELECT nope FROM small
SELECT * FROM no_such_table
SELECT * FROM no_schema.t
SELEC 1
SELECT 1 +
SELECT (1
SELECT 'open
SELECT no_such_function(1)
SELECT 1 / 0
SELECT 'x'::int4
SELECT '2024-13-01'::date
SELECT 99999999999::int4
SELECT small.a FROM small AS s
SELECT b FROM small GROUP BY a
SELECT a FROM small WHERE sum(a) > 1
SELECT (SELECT a FROM small)
INSERT INTO small (a) VALUES (NULL)
INSERT INTO small (nope) VALUES (1)
CREATE TABLE small (a int)
DROP TABLE no_such_table
CREATE SCHEMA public
SELECT a FROM small UNION SELECT a, b FROM small
SELECT x.a FROM small x JOIN small y ON true ORDER BY z.a
SELECT * FROM small LIMIT -1
SELECT * FROM small OFFSET -1
SELECT 'abc'::date
SELECT '2024-01-01 25:00:00'::timestamp
