SELECT 1, -2, 3.5, 'text', true, NULL
SELECT a, b FROM t WHERE a < 20 ORDER BY a
SELECT count(*), sum(a), avg(a), min(b), max(b) FROM t
SELECT a % 3 AS g, count(*), sum(a) FROM t GROUP BY a % 3 ORDER BY g
SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.a + 1 WHERE x.a < 10 ORDER BY 1
SELECT a, CASE WHEN a % 2 = 0 THEN 'even' END FROM t WHERE a < 9 ORDER BY a
SELECT a, row_number() OVER (ORDER BY a DESC) FROM t WHERE a < 6 ORDER BY a
WITH c AS (SELECT a FROM t WHERE a < 5) SELECT * FROM c UNION ALL SELECT a + 100 FROM c ORDER BY 1
SELECT CAST(1.25 AS decimal(10, 3)), CAST(-0.001 AS decimal(20, 6)), CAST(12345678901234567890 AS decimal(38, 4))
SELECT CAST('nan' AS double), CAST('inf' AS double), CAST(1e300 AS double), CAST(1.5 AS real)
SELECT CAST(1 AS tinyint), CAST(2 AS smallint), CAST(3 AS int unsigned), CAST(4 AS bigint unsigned)
SELECT date '2024-02-29', date '1969-12-31', date '0001-01-01', time '23:59:59.5'
SELECT timestamp '2024-02-29 12:00:00.123456', timestamp '1969-12-31 23:59:59.999999'
SELECT arrow_cast('2024-01-02T03:04:05Z', 'Timestamp(Microsecond, Some("UTC"))')
SELECT interval '3 days', interval '2 hours', interval '1 day 1 second'
SELECT x'00ff', CAST('bytes' AS bytea), 'ünï ✓', ''
SELECT [1, 2, 3], ['a', NULL, 'b,c'], [[1], [2]], make_array(1.5)
SELECT struct(1 AS a, 'x' AS b), named_struct('k', [1, 2])
SELECT a, b FROM t WHERE a < 0
SELECT array_agg(a ORDER BY a) FROM t WHERE a < 4
SELECT DISTINCT a % 2 AS p FROM t ORDER BY p
SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 5
SELECT lower('ABC'), length('ünï'), substr('hello', 2, 3), replace('aXb', 'X', '-'), 'a' || 'b'
SELECT a BETWEEN 2 AND 4, a IN (1, 2), a IS NULL FROM t WHERE a < 5 ORDER BY a
SELECT ai_classify(b, ['x', 'y']) IS NOT NULL FROM t WHERE a < 3
