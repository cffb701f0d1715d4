SELECT id, extract(year FROM arrives) AS a, extract(month FROM arrives) AS b, extract(day FROM arrives) AS c FROM stays
SELECT id, extract(dow FROM arrives) AS a, extract(isodow FROM arrives) AS b, extract(doy FROM arrives) AS c FROM stays
SELECT id, extract(week FROM arrives) AS a, extract(quarter FROM arrives) AS b, extract(isoyear FROM arrives) AS c FROM stays
SELECT id, extract(century FROM arrives) AS r FROM stays
SELECT id, extract(decade FROM arrives) AS r FROM stays
SELECT id, extract(millennium FROM arrives) AS r FROM stays
SELECT id, extract(epoch FROM arrives) AS r FROM stays
SELECT id, extract(epoch FROM opened) AS r FROM stays
SELECT id, extract(julian FROM arrives) AS r FROM stays
SELECT id, extract(hour FROM opened) AS a, extract(minute FROM opened) AS b, extract(second FROM opened) AS c FROM stays
SELECT id, extract(millisecond FROM opened) AS a, extract(microseconds FROM opened) AS b FROM stays
SELECT id, date_part('year', opened) AS a, date_part('week', opened) AS b, date_part('dow', opened) AS c FROM stays
SELECT id, date_trunc('year', opened) AS a, date_trunc('month', opened) AS b, date_trunc('week', opened) AS c FROM stays
SELECT id, date_trunc('day', opened) AS a, date_trunc('hour', opened) AS b, date_trunc('minute', opened) AS c FROM stays
SELECT id, date_trunc('quarter', opened) AS r FROM stays
SELECT id, date_trunc('decade', opened) AS r FROM stays
SELECT id, date_trunc('second', opened) AS r FROM stays
SELECT id, date_trunc('month', arrives) AS a FROM stays
SELECT id, date_trunc('month', arrives)::date AS a, date_trunc('month', seen) AS b FROM stays
SELECT date_trunc('month', arrives)::date AS m, count(*) AS n FROM stays GROUP BY 1
SELECT extract(year FROM arrives) AS y, count(*) AS n FROM stays GROUP BY extract(year FROM arrives)
SELECT id FROM stays WHERE extract(month FROM arrives) = 1
SELECT id FROM stays WHERE date_trunc('year', opened) = timestamp '2024-01-01'
SELECT id FROM stays WHERE date_part('dow', arrives) IN (0, 6)
SELECT id, arrives::text AS r FROM stays
SELECT id, opened::text AS r FROM stays
SELECT id, opened::date AS r FROM stays
SELECT id, opened::time AS r FROM stays
SELECT id, arrives::timestamp AS r FROM stays
SELECT id, to_char(opened, 'YYYY-MM-DD HH24:MI:SS') AS a, to_char(opened, 'DD.MM.YY') AS b, to_char(arrives, 'Mon DD') AS c FROM stays
SELECT to_char(date '2024-01-05', 'Day') AS r
SELECT to_char(date '2024-01-05', 'FMDay, DD Month') AS r
SELECT to_char(date '2024-01-05', 'D DDD WW Q') AS r
SELECT to_char(timestamp '2024-01-05 15:04:05.123', 'HH12:MI AM') AS a, to_char(timestamp '2024-01-05 15:04:05.123', 'HH24MISS.MS US') AS b
SELECT to_date('05 Jan 2024', 'DD Mon YYYY') AS r
SELECT to_date('2024-01-05', 'YYYY-MM-DD') AS r
SELECT to_timestamp('2024-01-05 10:00', 'YYYY-MM-DD HH24:MI') AS r
SELECT make_date(2024, 1, 5) AS r
SELECT make_time(8, 30, 1.5) AS r
SELECT make_timestamp(2024, 1, 5, 8, 30, 0) AS r
SELECT date '2024-01-05' - date '2024-01-01' AS a, date '2024-01-05' + 10 AS b, date '2024-01-05' - 10 AS c
SELECT date '2024-02-28' + 1 AS a, date '2024-02-29' + 1 AS b, date '2023-02-28' + 1 AS c, date '2024-12-31' + 1 AS d
SELECT date '2024-01-05' < date '2024-01-06' AS a, date '2024-01-05' = '2024-01-05' AS b, '2024-01-05' < date '2024-01-06' AS c
SELECT date '2024-01-05' = timestamp '2024-01-05 00:00' AS a, date '2024-01-05' < timestamp '2024-01-05 08:00' AS b
SELECT timestamp '2024-01-05 08:00' - date '2024-01-01' AS a, date '2024-01-05' - timestamp '2024-01-01 12:00' AS b
SELECT timestamp '2024-01-05 08:00:00.123456' AS a, timestamp '2024-01-05' AS b, time '08:00:00.5' AS c, time '23:59:59' AS d
SELECT timestamp '2024-01-05 08:00:00.1234567' AS r
SELECT timestamp(0) '2024-01-05 08:00:00.5' AS r
SELECT timestamp(3) '2024-01-05 08:00:00.1239' AS r
SELECT date 'epoch' AS r
SELECT date '1900-01-01' AS r
SELECT date '0001-01-01' AS r
SELECT date '9999-12-31' AS r
SELECT date '2024-01-05' BETWEEN '2024-01-01' AND '2024-01-31' AS a, date '2024-01-05' IN ('2024-01-05', '2024-01-06') AS b
SELECT time '08:00' < time '09:00' AS a, time '08:00' = '08:00:00' AS b, time '08:00' BETWEEN '07:00' AND '09:00' AS c
SELECT extract(hour FROM time '08:30') AS r
SELECT extract(minute FROM time '08:30:15.5') AS r
SELECT extract(second FROM time '08:30:15.5') AS r
SELECT date_trunc('week', timestamp '2024-01-07 10:00') AS a, date_trunc('week', timestamp '2024-01-08 10:00') AS b
SELECT extract(week FROM date '2024-12-30') AS a, extract(isoyear FROM date '2024-12-30') AS b, extract(week FROM date '2021-01-01') AS c
SELECT extract(dow FROM date '2024-01-07') AS a, extract(isodow FROM date '2024-01-07') AS b, extract(doy FROM date '2024-12-31') AS c
SELECT date_bin('15 minutes', timestamp '2024-01-05 08:40', timestamp '2024-01-01') AS a, date_bin('1 day', timestamp '2024-01-05 08:40', timestamp '2024-01-01 06:00') AS b
SELECT current_date = now()::date AS r
SELECT current_timestamp = now() AS r
SELECT localtime IS NOT NULL AS r
SELECT clock_timestamp() >= now() AS r
SELECT current_date + 1 > current_date AS a, now() + interval '1 day' > now() AS b, current_date - interval '1 day' < current_date AS c
SELECT min(arrives) AS a, max(arrives) AS b, max(arrives) - min(arrives) AS c, count(DISTINCT arrives) AS d FROM stays
SELECT id FROM stays WHERE arrives > '2024-01-15'
SELECT id FROM stays WHERE arrives >= date '2024-01-01' AND arrives < date '2024-01-01' + interval '1 month'
SELECT id FROM stays WHERE opened >= '2024-03-10' AND opened < '2024-03-11'
SELECT id FROM stays WHERE opened::date = '2024-03-10'
SELECT id FROM stays WHERE opened BETWEEN '2024-03-10 02:00' AND '2024-03-10 03:00'
SELECT id FROM stays WHERE arrives IN ('2024-01-01', '2023-12-31')
SELECT id FROM stays WHERE arrives <> date '2024-01-01'
SELECT id FROM stays WHERE (arrives, leaves) OVERLAPS (date '2024-01-03', date '2024-02-29')
SELECT id FROM stays WHERE arrives IS DISTINCT FROM leaves - 1
SELECT id, leaves - arrives AS nights, (leaves - arrives) / 7 AS weeks, (leaves - arrives) * 2.5 AS cost FROM stays
SELECT id, CASE WHEN leaves - arrives > 3 THEN 'long' ELSE 'short' END AS r FROM stays
SELECT id, coalesce(leaves, arrives + 7) AS r, greatest(arrives, leaves) AS g FROM stays
SELECT guest, sum(leaves - arrives) AS n, max(leaves) AS m FROM stays GROUP BY guest
SELECT id FROM stays ORDER BY arrives DESC NULLS LAST, id
SELECT id, arrives - hired AS d FROM stays JOIN emp USING (id)
SELECT date '2024-01-31' + interval '1 month' - interval '1 month' AS r
SELECT (date '2024-01-31' + interval '1 month')::date AS r
SELECT isfinite(timestamp 'infinity') AS r
SELECT timestamp 'infinity' > now() AS r
SELECT date 'infinity' > current_date AS r
SELECT to_char(1.5 * interval '1 hour', 'HH24:MI') AS a
SELECT 'today'::date = current_date AS r
SELECT 'tomorrow'::date - 'yesterday'::date AS r
SELECT k, extract(second FROM a) AS r, date_part('milliseconds', b) AS s FROM v_timestamp
SELECT k, extract(second FROM a) AS r, extract(millisecond FROM b) AS s FROM v_timestamptz
SELECT k, extract(second FROM a) AS r, extract(microsecond FROM b) AS s FROM v_time
SELECT extract(millisecond FROM timestamp '2024-01-01 00:00:01.50025') AS r
SELECT extract(second FROM a) AS s, count(*) AS n FROM v_timestamp GROUP BY extract(second FROM a)
SELECT k, extract(epoch FROM b - a) AS r, extract(epoch FROM b - a) / 3600 AS s FROM v_timestamp
SELECT k, extract(epoch FROM b - a) AS r FROM v_timestamptz
SELECT k, date_part('day', b - a) AS d, date_part('hour', b - a) AS h, date_part('minute', b - a) AS m FROM v_timestamp
SELECT k, extract(second FROM b - a) AS s, extract(millisecond FROM b - a) AS m, extract(microsecond FROM b - a) AS u FROM v_timestamp
SELECT k, extract(year FROM b - a) AS y, extract(month FROM b - a) AS m FROM v_timestamp
SELECT extract(epoch FROM max(b - a)) AS r, extract(epoch FROM sum(b - a)) AS s FROM v_timestamp WHERE k < 3
WITH d AS (SELECT k, b - a AS i FROM v_timestamp) SELECT k FROM d WHERE extract(epoch FROM i) > 2563199
SELECT extract(hour FROM b - a) AS h, count(*) AS n FROM v_timestamp GROUP BY extract(hour FROM b - a)
SELECT CAST('080000' AS time) AS r, '0830'::time AS b, time '08:00:00.1234567' AS c, CAST('08:00:00.9999999' AS time) AS d
SELECT CAST('08' AS time) AS r
SELECT CAST(x AS time) AS r FROM (VALUES ('080000'), ('08:00:00.1234567'), ('8:05'), (NULL)) v(x)
SELECT CAST(x AS timestamp) AS r FROM (VALUES ('2024-01-05 10:00:00.1234567'), ('2024-01-05 10:00:00+02'), ('2024-12-31 23:59:59.9999999'), ('2024-01-05'), (NULL)) v(x)
SELECT timestamp(0) '2024-01-05 08:00:00.5' AS r, timestamp(3) '2024-01-05 08:00:00.1239' AS b, timestamp(0) '2024-12-31 23:59:59.6' AS c
SELECT id, (opened + interval '0.6 seconds')::timestamp(0) AS r, CAST(opened + interval '0.0006 seconds' AS timestamp(3)) AS b FROM stays
SELECT date '2024-01-05' AS r, '2024-01-05 10:00:00'::timestamp::date AS b, '12345' AS c, cast('20240105' AS date) AS d
