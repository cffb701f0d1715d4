-- literals
SELECT interval '1 day' AS r
SELECT interval '1' day AS r
SELECT interval '2 hours 30 minutes' AS r
SELECT interval '-1 day' AS r
SELECT interval '1-2' year to month AS r
SELECT interval '1 2:03' day to minute AS r
SELECT interval '90' minute AS r
SELECT interval '1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds' AS r
SELECT interval '1.5 days' AS a, interval '0.5 year' AS b, interval '1.5 months' AS c, interval '2.5 hours' AS d
SELECT interval '1 week' AS a, interval '1 decade' AS b, interval '1 millisecond' AS c, interval '1 quarter' AS d
SELECT interval '100 hours' AS r
SELECT interval '36:00:00' AS r
SELECT interval '400 days' AS r
SELECT interval '14 months' AS r
SELECT interval '1 day -2 hours' AS r
SELECT interval '-1 month +5 days' AS r
SELECT interval '1 day ago' AS r
SELECT interval 'P1Y2M3DT4H5M6S' AS r
SELECT interval 'PT36H' AS r
SELECT interval '@ 1 minute' AS r
SELECT -interval '1 day' AS r
SELECT - interval '1 month 2 days' AS r
SELECT CAST(interval '1 month 40 days 25:00' AS text) AS r
-- comparisons
SELECT interval '1 day' = interval '24 hours' AS r
SELECT interval '1 month' = interval '30 days' AS r
SELECT interval '1 year' = interval '360 days' AS r
SELECT interval '1 day' > interval '23 hours' AS r
SELECT interval '1 month' < interval '31 days' AS r
SELECT interval '1 month' > interval '29 days' AS r
SELECT interval '1 year' > interval '11 months 29 days' AS a, interval '1 year' <> interval '12 months' AS b
SELECT interval '40 days' > interval '1 month' AS r
SELECT interval '1000 hours' > interval '1 month' AS r
SELECT interval '-1 day' < interval '0' AS r
SELECT interval '1 day' IN (interval '24 hours', interval '2 days') AS r
SELECT interval '30 days' BETWEEN interval '1 month' AND interval '2 months' AS r
SELECT interval '1 month' IS DISTINCT FROM interval '30 days' AS a, nullif(interval '1 day', interval '24 hours') AS b
SELECT greatest(interval '40 days', interval '1 month') AS r
SELECT least(interval '40 days', interval '1 month') AS r
SELECT CASE interval '1 day' WHEN interval '24 hours' THEN 'same' ELSE 'other' END AS r
SELECT timestamp '2024-01-09' - timestamp '2024-01-01' > interval '1 day' AS r
SELECT timestamp '2024-01-09' - timestamp '2024-01-01' = interval '8 days' AS r
SELECT timestamp '2024-01-09' - timestamp '2024-01-01' = interval '192 hours' AS r
SELECT timestamp '2024-02-01' - timestamp '2024-01-01' < interval '1 month' AS r
SELECT timestamp '2024-03-01' - timestamp '2024-02-01' < interval '1 month' AS r
SELECT timestamp '2024-01-02 12:00' - timestamp '2024-01-01' BETWEEN interval '1 day' AND interval '2 days' AS r
SELECT date '2024-01-09' - date '2024-01-01' > 3 AS r
-- in every clause
SELECT id FROM stays WHERE closed - opened > interval '1 day'
SELECT id FROM stays WHERE closed - opened < interval '1 day'
SELECT id FROM stays WHERE closed - opened >= interval '2 hours'
SELECT id FROM stays WHERE closed - opened = interval '8 days'
SELECT id FROM stays WHERE closed - opened <> interval '192 hours'
SELECT id FROM stays WHERE closed - opened BETWEEN interval '1 hour' AND interval '3 days'
SELECT id FROM stays WHERE closed - opened IN (interval '8 days', interval '15 minutes')
SELECT id FROM stays WHERE NOT closed - opened > interval '1 day'
SELECT id FROM stays WHERE closed > opened + interval '1 day'
SELECT id FROM stays WHERE opened < closed - interval '1 month'
SELECT id FROM stays WHERE closed - opened > lasted
SELECT id FROM stays WHERE closed - opened <= lasted OR lasted IS NULL
SELECT id FROM stays WHERE lasted > interval '1 day'
SELECT id FROM stays WHERE lasted = interval '1 day'
SELECT id FROM stays WHERE lasted = interval '1 month'
SELECT id FROM stays WHERE lasted IN (interval '24 hours', interval '30 days')
SELECT id FROM stays WHERE lasted < interval '0 days'
SELECT id FROM stays WHERE opened + lasted > closed
SELECT id FROM stays WHERE seen - opened AT TIME ZONE 'UTC' > interval '1 hour'
SELECT id, closed - opened > interval '1 day' AS r FROM stays
SELECT id, CASE WHEN closed - opened > interval '1 day' THEN 'long' ELSE 'short' END AS r FROM stays
SELECT id, CASE WHEN lasted >= interval '1 month' THEN 'long' WHEN lasted < interval '0' THEN 'back' ELSE 'short' END AS r FROM stays
SELECT count(*) FILTER (WHERE closed - opened > interval '1 day') AS n FROM stays
SELECT count(*) FILTER (WHERE lasted > interval '1 day') AS n, sum(CASE WHEN lasted > interval '29 days' THEN 1 ELSE 0 END) AS s FROM stays
SELECT id, lasted FROM stays ORDER BY lasted, id
SELECT id, lasted FROM stays ORDER BY lasted DESC NULLS LAST, id LIMIT 3
SELECT id FROM stays ORDER BY closed - opened, id
SELECT id FROM stays ORDER BY closed - opened DESC, id
SELECT DISTINCT closed - opened AS d FROM stays
SELECT count(DISTINCT lasted) AS n FROM stays
SELECT lasted = interval '1 day' AS r FROM stays GROUP BY lasted = interval '1 day'
SELECT count(*) AS r FROM stays GROUP BY lasted = interval '1 day'
SELECT min(id) AS r FROM stays GROUP BY lasted
SELECT count(*) AS r FROM stays GROUP BY lasted
SELECT guest FROM stays GROUP BY guest HAVING max(closed - opened) > interval '1 day'
SELECT guest FROM stays GROUP BY guest HAVING max(lasted) >= interval '1 month'
SELECT guest, max(lasted) AS hi, min(lasted) AS lo FROM stays GROUP BY guest
SELECT max(closed - opened) AS hi, min(closed - opened) AS lo FROM stays
SELECT sum(closed - opened) AS s FROM stays
SELECT avg(closed - opened) AS s FROM stays WHERE id < 4
SELECT sum(lasted) AS r FROM stays
SELECT avg(lasted) AS r FROM stays
SELECT l.id FROM stays l JOIN stays r ON l.lasted = r.lasted
SELECT r.id AS r FROM stays l JOIN stays r ON l.lasted = r.lasted
SELECT l.id FROM stays l JOIN stays r ON r.opened - l.opened > interval '30 days' AND l.id < r.id
SELECT r.id AS r FROM stays l JOIN stays r ON r.opened - l.opened > interval '30 days' AND l.id < r.id
SELECT l.id FROM stays l LEFT JOIN stays r ON r.opened - l.closed BETWEEN interval '0 days' AND interval '90 days'
SELECT r.id AS r FROM stays l LEFT JOIN stays r ON r.opened - l.closed BETWEEN interval '0 days' AND interval '90 days'
SELECT id FROM stays WHERE lasted IN (SELECT lasted FROM stays WHERE id IN (1, 3))
SELECT id FROM stays s WHERE EXISTS (SELECT 1 FROM stays i WHERE i.lasted = s.lasted AND i.id <> s.id)
SELECT id FROM stays WHERE lasted > (SELECT min(lasted) FROM stays)
SELECT id FROM stays WHERE lasted >= ALL (SELECT lasted FROM stays WHERE lasted IS NOT NULL)
SELECT count(*) AS n FROM (SELECT lasted FROM stays UNION SELECT interval '30 days') i
SELECT id, rank() OVER (ORDER BY closed - opened) AS r FROM stays
SELECT id, opened - lag(opened) OVER (ORDER BY opened) > interval '30 days' AS r FROM stays
-- of dates
SELECT id FROM stays WHERE leaves - arrives > 3
SELECT id FROM stays WHERE leaves - arrives = 4
SELECT id FROM stays WHERE leaves - arrives >= 1 AND leaves - arrives < 10
SELECT id, leaves - arrives AS r FROM stays
SELECT id FROM stays WHERE current_date - arrives > 30
SELECT arrives FROM stays WHERE arrives < leaves - 3
SELECT guest FROM stays GROUP BY guest HAVING sum(leaves - arrives) > 3
SELECT id FROM stays WHERE arrives < opened::date
SELECT id FROM stays WHERE arrives < closed
SELECT id FROM stays WHERE arrives = opened
SELECT id FROM stays WHERE leaves > arrives + interval '3 days'
SELECT id FROM stays WHERE leaves > arrives + 3
SELECT id, arrives + interval '1 month' AS r FROM stays
SELECT id, arrives - interval '1 year' AS r FROM stays
SELECT id, arrives + interval '36 hours' AS r FROM stays
SELECT id, arrives + 1 AS a, arrives - 1 AS b, 1 + arrives AS c, arrives - 0 AS d FROM stays
SELECT id, arrives + time '08:00' AS a FROM stays
SELECT avg(leaves - arrives) AS m, max(leaves - arrives) AS n, sum(leaves - arrives) AS s FROM stays
-- arithmetic
SELECT date '2024-01-31' + interval '1 month' AS r
SELECT date '2024-03-31' - interval '1 month' AS r
SELECT date '2024-02-29' + interval '1 year' AS r
SELECT timestamp '2024-01-31 08:00' + interval '1 month' AS a, timestamp '2024-01-31 08:00' + interval '1 month 1 day' AS b
SELECT timestamp '2024-01-31' + interval '1 month' + interval '1 month' AS a, timestamp '2024-01-31' + interval '2 months' AS b
SELECT interval '1 day' + interval '2 hours' AS a, interval '1 month' - interval '1 day' AS b, interval '1 day' - interval '1 day' AS c
SELECT interval '1 day' * 2 AS r
SELECT 3 * interval '2 hours' AS r
SELECT interval '1 month' * 1.5 AS r
SELECT interval '1 day' * 0.5 AS r
SELECT interval '1 day' / 2 AS r
SELECT interval '1 month' / 2 AS r
SELECT interval '1 year' / 5 AS r
SELECT interval '10 seconds' / 3 AS r
SELECT id, lasted * 2 AS r FROM stays
SELECT id, lasted / 2 AS r FROM stays
SELECT id, -lasted AS r FROM stays
SELECT id, interval '1 day' * id AS r FROM stays
SELECT id, id * interval '1 hour' AS r FROM stays
SELECT id, opened + interval '1 day' * id AS a FROM stays
SELECT id, opened + lasted AS r FROM stays
SELECT id, opened - lasted AS r FROM stays
SELECT id, arrives + lasted AS r FROM stays
SELECT id, closed - opened AS a, opened - closed AS b, arrives - opened AS c FROM stays
SELECT id, (closed - opened) * 2 AS r FROM stays
SELECT id, (closed - opened) / 2 AS r FROM stays
SELECT id, (closed - opened) + interval '1 day' AS r FROM stays
SELECT time '08:00' + interval '1 hour' AS a, time '23:30' + interval '1 hour' AS b, time '08:00' - time '07:15' AS c, time '08:00' - interval '9 hours' AS d
SELECT interval '1 day' + NULL AS r
SELECT NULL * interval '1 day' AS r
SELECT interval '1 day' + date '2024-01-01' AS r
SELECT interval '1 day' + timestamp '2024-01-01' AS r
-- functions
SELECT extract(day FROM interval '40 days 5 hours') AS a, extract(hour FROM interval '40 days 5 hours') AS b, extract(epoch FROM interval '1 month 1 day') AS c
SELECT extract(year FROM interval '14 months') AS r
SELECT extract(month FROM interval '14 months') AS r
SELECT extract(second FROM interval '1.5 seconds') AS r
SELECT id, extract(epoch FROM closed - opened) AS r FROM stays
SELECT id, extract(day FROM closed - opened) AS r FROM stays
SELECT id, extract(hour FROM closed - opened) AS r FROM stays
SELECT id, date_part('day', closed - opened) AS r FROM stays
SELECT id, date_part('epoch', lasted) AS r FROM stays
SELECT id, CAST(closed - opened AS text) AS r FROM stays
SELECT id, CAST(lasted AS text) AS r FROM stays
SELECT justify_days(interval '35 days') AS r
SELECT justify_hours(interval '27 hours') AS r
SELECT justify_interval(interval '1 month -1 hour') AS r
SELECT age(timestamp '2024-03-01', timestamp '2024-01-31') AS r
SELECT age(timestamp '2024-01-01', timestamp '2024-03-15 12:00') AS r
SELECT id, age(closed, opened) AS r FROM stays
SELECT id, age(leaves, arrives) AS r FROM stays
SELECT id FROM stays WHERE age(leaves, arrives) > interval '1 month'
SELECT make_interval(days => 10) AS r
SELECT make_interval(1, 2) AS r
SELECT make_interval(hours => 5, secs => 1.5) AS r
SELECT date_trunc('hour', interval '2 days 3 hours 40 minutes') AS r
SELECT to_char(interval '3 hours 4 minutes', 'HH24:MI') AS r
SELECT coalesce(lasted, interval '0 days') AS r FROM stays
SELECT isfinite(interval '1 day') AS r
SELECT opened FROM stays WHERE (opened, closed) OVERLAPS (timestamp '2024-01-05', timestamp '2024-01-06')
SELECT x FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '12 hours') s(x)
SELECT x FROM generate_series(timestamp '2024-01-31', timestamp '2024-05-01', interval '1 month') s(x)
SELECT d FROM (VALUES (date '2024-01-01', date '2024-01-05')) v(due, d) WHERE d - due > 3
SELECT d FROM (VALUES (timestamp '2023-12-31', timestamp '2023-12-31 23:59:59')) v(d, t) WHERE d < t::date
SELECT d FROM (VALUES (timestamp '2023-12-31', timestamp '2023-12-31 23:59:59'), (timestamp '2024-02-29', timestamp '2024-02-29 12:00')) v(d, t) WHERE d < t::date
SELECT id FROM stays WHERE opened < closed::date
SELECT id FROM stays WHERE opened::date = closed::date
SELECT id FROM stays WHERE opened::date <= arrives
SELECT extract(epoch FROM interval '1 year') AS a, extract(epoch FROM interval '14 months 2 days') AS b, extract(epoch FROM interval '-25 months') AS c
SELECT k, date_part('epoch', a) AS e, extract(second FROM a) AS s, extract(hour FROM b) AS h FROM v_interval
SELECT extract(second FROM interval '61.5 seconds') AS a, extract(millisecond FROM interval '61.5 seconds') AS b
SELECT id, (closed - opened) * 2 AS r, (closed - opened) / 2 AS b, (closed - opened) + interval '1 day' AS c, date_part('epoch', lasted) AS d FROM stays
SELECT id, extract(hour FROM closed - opened) AS r, extract(day FROM closed - opened) AS b, extract(second FROM closed - opened) AS c, extract(epoch FROM closed - opened) AS e FROM stays
SELECT id FROM stays WHERE extract(epoch FROM lasted) > 86400
SELECT max(lasted) AS r FROM stays
SELECT id FROM stays WHERE lasted > interval '300 days' AND date_part('epoch', lasted) > 36288000
SELECT extract(microsecond FROM t::interval) AS a, extract(second FROM t::interval) AS b FROM (VALUES ('2 years 10 seconds'), ('26.3434 seconds')) v(t)
SELECT sum(timestamp '2200-01-01' - timestamp '2000-01-01') AS s FROM nums
SELECT sum(closed - opened) AS s FROM stays
SELECT guest, sum(closed - opened) AS s, avg(closed - opened) AS a, count(*) AS n FROM stays GROUP BY guest ORDER BY guest
SELECT id, sum(closed - opened) OVER (ORDER BY id) AS s, avg(closed - opened) OVER (ORDER BY id) AS a FROM stays ORDER BY id
SELECT sum(d) AS s, avg(d) AS a, max(d) AS m FROM (SELECT closed - opened AS d FROM stays) q
SELECT guest FROM stays GROUP BY guest HAVING sum(closed - opened) > interval '2 days' ORDER BY guest
SELECT guest, sum(closed - opened) FILTER (WHERE id <> 1) AS s FROM stays GROUP BY guest ORDER BY sum(closed - opened), guest
SELECT avg(lasted) AS a, sum(lasted) AS s FROM stays
SELECT avg(closed - opened) AS a FROM stays WHERE id > 100
SELECT sum(seen - timestamptz '2000-01-01 00:00+00') AS s FROM stays
SELECT timestamp '2000-01-01' + sum(closed - opened) AS s FROM stays
SELECT sum(closed - opened) * 2 AS s, sum(closed - opened) / count(*) AS t, sum(closed - opened) + interval '1 day' AS u FROM stays
SELECT extract(epoch FROM sum(closed - opened)) AS s, extract(day FROM sum(closed - opened)) AS d FROM stays
SELECT sum(closed - opened)::text AS s FROM stays WHERE id < 3
SELECT sum(time '10:00' - time '09:00') AS s FROM nums
SELECT sum(leaves - arrives) AS s, avg(leaves - arrives) AS a FROM stays
SELECT sum(x - y) AS s, avg(x - y) AS a FROM nums
SELECT coalesce(sum(closed - opened), interval '0 seconds') AS s FROM stays
SELECT avg(lasted) AS a, guest FROM stays GROUP BY ROLLUP (guest) ORDER BY 2
SELECT DISTINCT avg(lasted) OVER (PARTITION BY guest) > interval '1 day' AS a FROM stays ORDER BY 1
SELECT (closed - opened) * 1000000 AS s FROM stays WHERE id = 2
SELECT sum(DISTINCT closed - opened) AS s FROM stays
SELECT s.id FROM stays s WHERE closed - opened >= (SELECT avg(closed - opened) FROM stays) ORDER BY 1
