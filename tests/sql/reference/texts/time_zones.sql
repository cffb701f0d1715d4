-- AT TIME ZONE of a timestamp: a timestamp with time zone
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'America/New_York' AS r
SELECT timestamp '2024-07-01 08:00' AT TIME ZONE 'America/New_York' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'UTC' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'Asia/Kolkata' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE '+05:30' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE '-08' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'EST' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'GMT' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE interval '2 hours' AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE NULL AS r
SELECT timestamp '2024-01-01 08:00' AT TIME ZONE 'Nowhere/None' AS r
SELECT CAST(NULL AS timestamp) AT TIME ZONE 'UTC' AS r
SELECT date '2024-01-01' AT TIME ZONE 'America/New_York' AS r
SELECT id, opened AT TIME ZONE 'UTC' AS r FROM stays
SELECT id, opened AT TIME ZONE 'Europe/Paris' AS r FROM stays
SELECT id, opened AT TIME ZONE 'America/New_York' AS r FROM stays
-- the hour that does not exist, and the hour that exists twice
SELECT timestamp '2024-03-10 02:30' AT TIME ZONE 'America/New_York' AS r
SELECT timestamp '2024-11-03 01:30' AT TIME ZONE 'America/New_York' AS r
SELECT timestamp '2024-03-31 02:30' AT TIME ZONE 'Europe/Berlin' AS r
SELECT timestamp '2024-10-27 02:30' AT TIME ZONE 'Europe/Berlin' AS r
SELECT id, opened AT TIME ZONE 'America/New_York' AS r FROM stays WHERE id IN (3, 4)
SELECT (timestamp '2024-03-10 02:30' AT TIME ZONE 'America/New_York') AT TIME ZONE 'America/New_York' AS r
SELECT count(opened AT TIME ZONE 'America/New_York') AS n FROM stays
-- AT TIME ZONE of a timestamp with time zone: a timestamp
SELECT timestamptz '2024-01-01 08:00+00' AT TIME ZONE 'America/New_York' AS r
SELECT timestamptz '2024-07-01 08:00+00' AT TIME ZONE 'America/New_York' AS r
SELECT timestamptz '2024-01-01 08:00+02' AT TIME ZONE 'UTC' AS r
SELECT id, seen AT TIME ZONE 'America/New_York' AS r FROM stays
SELECT id, seen AT TIME ZONE 'UTC' AS r FROM stays
SELECT id, CAST(seen AT TIME ZONE 'America/New_York' AS date) AS r FROM stays
SELECT id, (seen AT TIME ZONE 'Asia/Tokyo')::date AS r FROM stays
SELECT id, CAST(seen AT TIME ZONE 'America/New_York' AS text) AS r FROM stays
SELECT id, extract(hour FROM seen AT TIME ZONE 'America/New_York') AS r FROM stays
SELECT id, date_trunc('day', seen AT TIME ZONE 'America/New_York') AS r FROM stays
SELECT id, date_trunc('day', seen AT TIME ZONE 'America/New_York') AT TIME ZONE 'America/New_York' AS r FROM stays
SELECT id, to_char(seen AT TIME ZONE 'America/New_York', 'YYYY-MM-DD HH24:MI') AS r FROM stays
SELECT id, (opened AT TIME ZONE 'America/New_York') AT TIME ZONE 'UTC' AS r FROM stays
SELECT id, (opened AT TIME ZONE 'UTC') AT TIME ZONE 'America/New_York' AS r FROM stays
SELECT id, (seen AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS r FROM stays
SELECT id, (opened AT TIME ZONE 'America/New_York')::date AS r FROM stays
SELECT id, CAST(opened AT TIME ZONE 'Asia/Tokyo' AS date) AS r FROM stays
SELECT id, CAST(opened AT TIME ZONE 'Asia/Tokyo' AS timestamp) AS r FROM stays
SELECT id, CAST(opened AT TIME ZONE 'Asia/Tokyo' AS text) AS r FROM stays
SELECT id, extract(hour FROM opened AT TIME ZONE 'Asia/Tokyo') AS r FROM stays
SELECT id, extract(day FROM opened AT TIME ZONE 'Asia/Tokyo') AS r FROM stays
SELECT id, extract(epoch FROM opened AT TIME ZONE 'Asia/Tokyo') AS r FROM stays
SELECT id, date_trunc('day', opened AT TIME ZONE 'Asia/Tokyo') AS r FROM stays
SELECT id, date_trunc('day', seen, 'Asia/Tokyo') AS r FROM stays
SELECT id, timezone('America/New_York', seen) AS r FROM stays
SELECT id, timezone('America/New_York', opened) AS r FROM stays
-- compared
SELECT t FROM (VALUES (timestamp '2024-01-01 08:00')) v(t) WHERE t AT TIME ZONE 'America/New_York' = timestamptz '2024-01-01 13:00+00'
SELECT id FROM stays WHERE opened AT TIME ZONE 'America/New_York' = timestamptz '2024-01-01 13:00+00'
SELECT id FROM stays WHERE opened AT TIME ZONE 'America/New_York' > seen
SELECT id FROM stays WHERE opened AT TIME ZONE 'UTC' = seen
SELECT id FROM stays WHERE opened AT TIME ZONE 'Asia/Tokyo' < seen
SELECT id FROM stays WHERE seen AT TIME ZONE 'America/New_York' = opened
SELECT id FROM stays WHERE seen AT TIME ZONE 'UTC' = opened
SELECT id FROM stays WHERE seen AT TIME ZONE 'America/New_York' < timestamp '2024-03-10 01:45'
SELECT id FROM stays WHERE seen AT TIME ZONE 'America/New_York' BETWEEN timestamp '2024-01-01' AND timestamp '2024-04-01'
SELECT id FROM stays WHERE CAST(seen AT TIME ZONE 'America/New_York' AS date) = date '2024-11-03'
SELECT id FROM stays WHERE opened AT TIME ZONE 'America/New_York' IN (timestamptz '2024-01-01 13:00+00', timestamptz '2024-03-10 06:30+00')
SELECT id FROM stays WHERE opened AT TIME ZONE 'America/New_York' BETWEEN timestamptz '2024-01-01 13:00+00' AND timestamptz '2024-01-01 14:00+00'
SELECT l.id FROM stays l JOIN stays r ON l.opened AT TIME ZONE 'America/New_York' = r.seen
SELECT r.id AS r FROM stays l JOIN stays r ON l.opened AT TIME ZONE 'America/New_York' = r.seen
SELECT id, seen - (opened AT TIME ZONE 'America/New_York') AS r FROM stays
SELECT id, (seen AT TIME ZONE 'America/New_York') - opened AS r FROM stays
SELECT id, seen AT TIME ZONE 'America/New_York' + interval '1 day' AS r FROM stays
SELECT id, (opened AT TIME ZONE 'America/New_York') + interval '1 day' AS r FROM stays
SELECT id, opened AT TIME ZONE 'America/New_York' IS DISTINCT FROM seen AS r FROM stays
SELECT max(opened AT TIME ZONE 'America/New_York') AS r FROM stays
SELECT min(seen AT TIME ZONE 'America/New_York') AS r FROM stays
SELECT DISTINCT CAST(seen AT TIME ZONE 'America/New_York' AS date) AS d FROM stays
SELECT CAST(seen AT TIME ZONE 'America/New_York' AS date) AS d, count(*) AS n FROM stays GROUP BY 1
SELECT id FROM stays ORDER BY opened AT TIME ZONE 'America/New_York', id
SELECT id, CASE WHEN opened AT TIME ZONE 'America/New_York' > seen THEN 'later' ELSE 'not' END AS r FROM stays
SELECT id, coalesce(opened AT TIME ZONE 'America/New_York', seen) AS r FROM stays
SELECT opened AT TIME ZONE 'America/New_York' AS r FROM stays UNION SELECT seen FROM stays
-- timestamps with and without a time zone together
SELECT id FROM stays WHERE opened = seen
SELECT id FROM stays WHERE seen = timestamp '2024-01-01 08:00'
SELECT id FROM stays WHERE seen = '2024-01-01 08:00'
SELECT id FROM stays WHERE seen = '2024-01-01 10:00+02'
SELECT id FROM stays WHERE seen > date '2024-03-10'
SELECT id, seen::date AS r, seen::time AS s, seen::timestamp AS t FROM stays
SELECT id, opened::timestamptz AS r, arrives::timestamptz AS s FROM stays
SELECT id, CAST(seen AS text) AS r FROM stays
SELECT id, CAST(opened AS text) AS r FROM stays
SELECT timestamptz '2024-01-01 08:00-05:00' AS a, timestamptz '2024-01-01 08:00Z' AS b, timestamptz '2024-01-01' AS c
SELECT timestamptz '2024-01-01 08:00 America/New_York' AS r
SELECT timestamptz '2024-07-01 08:00 PST' AS r
SELECT timestamp '2024-01-01 08:00+05' AS r
SELECT timestamp '2024-01-01T08:00:00Z' AS r
SELECT timestamptz '2024-01-01 08:00+00' = timestamptz '2024-01-01 10:00+02' AS a, timestamptz '2024-01-01 08:00+00' < timestamptz '2024-01-01 08:00-01' AS b
SELECT extract(epoch FROM timestamptz '2024-01-01 08:00+02') AS r
SELECT extract(timezone FROM timestamptz '2024-01-01 08:00+02') AS r
SELECT extract(hour FROM timestamptz '2024-01-01 08:00+02') AS a, date_trunc('hour', timestamptz '2024-01-01 08:40+02') AS b
SELECT id, seen + interval '1 day' AS a, seen - interval '1 month' AS b, seen - seen AS c FROM stays
SELECT make_timestamptz(2024, 1, 1, 8, 0, 0, 'America/New_York') AS r
SELECT to_timestamp(1704096000) AS r
SELECT to_timestamp(0.5) AS r
SELECT now() > timestamptz '2024-01-01' AS a, now() AT TIME ZONE 'UTC' > timestamp '2024-01-01' AS b
SELECT current_date > date '2024-01-01' AS a, current_timestamp > '2024-01-01' AS b, localtimestamp > timestamp '2024-01-01' AS c
SELECT now() - timestamptz '2024-01-01' > interval '7 days' AS r
SELECT now() - timestamptz '2024-01-01' > interval '1 month' AS r
SELECT id FROM stays WHERE now() - seen > interval '7 days'
SELECT id FROM stays WHERE now() AT TIME ZONE 'UTC' - opened > interval '7 days'
SELECT id FROM stays WHERE seen > now() - interval '7 days'
SELECT time '08:00' AT TIME ZONE 'UTC' IS NULL AS r
-- neighbours of the pass: functions, names of tables, conditions
SELECT id FROM stays WHERE timezone('Asia/Tokyo', seen)::date = date '2024-01-01'
SELECT q.id, q.l AT TIME ZONE 'Asia/Tokyo' AS r FROM (SELECT id, seen AT TIME ZONE 'Asia/Tokyo' AS l FROM stays) q
WITH q AS (SELECT id, opened AT TIME ZONE 'Europe/Berlin' AS z FROM stays) SELECT id, z AT TIME ZONE '-02' AS r FROM q
SELECT id FROM stays s WHERE EXISTS (SELECT 1 FROM stays i WHERE i.opened AT TIME ZONE 'America/New_York' = s.seen)
SELECT count(*) AS n, (seen AT TIME ZONE 'Pacific/Auckland')::date AS d FROM stays GROUP BY 2
SELECT id, arrives AT TIME ZONE 'Asia/Tokyo' AS r FROM stays
SELECT id, coalesce(opened, closed) AT TIME ZONE 'Africa/Cairo' AS r FROM stays
SELECT id, (opened + interval '1 day') AT TIME ZONE 'Australia/Lord_Howe' AS r FROM stays
SELECT CAST('2024-01-05 10:00+02' AS timestamp) AS r, timestamp '2024-01-01 08:00+05' AS b, timestamp '2024-01-01 08:00:00Z' AS c, '2024-01-01T08:00:00.5-03:30'::timestamp AS d
SELECT timestamptz '2024-01-01 08:00:00.1234567+05' AS r, CAST('2024-12-31 23:59:59.9999996+01' AS timestamptz) AS b
SELECT id, opened::timestamp(0) AS r, seen::timestamptz(0) AS b FROM stays
SELECT id FROM stays WHERE opened = timestamp '2024-01-01 08:00:00+05'
SELECT id FROM stays WHERE seen > timestamptz '2024-01-01 08:00:00-05'
SELECT ARRAY[date '2024-01-01', timestamptz '2024-01-02 00:00+00'] AS r
SELECT a FROM v_date WHERE k = 1 EXCEPT SELECT b FROM v_timestamptz WHERE k = 2 ORDER BY 1
SELECT a FROM v_date WHERE k = 1 UNION SELECT b FROM v_timestamptz WHERE k = 2 ORDER BY 1
SELECT a FROM v_timestamp WHERE k = 1 UNION ALL SELECT b FROM v_timestamptz WHERE k = 2 ORDER BY 1
SELECT a FROM v_timestamptz WHERE k = 1 UNION ALL SELECT b FROM v_date WHERE k = 2 ORDER BY 1
SELECT l.k, CASE WHEN l.k > 3 THEN l.a ELSE r.a END AS r FROM v_date l JOIN v_timestamptz r USING (k) WHERE k = 1
SELECT l.k, coalesce(l.a, r.b) AS r FROM v_date l JOIN v_timestamptz r USING (k) WHERE k = 1
SELECT l.k, coalesce(r.a, l.b) AS r FROM v_date l JOIN v_timestamptz r USING (k) WHERE k = 1
SELECT l.k, greatest(l.a, r.a) AS r FROM v_date l JOIN v_timestamptz r USING (k) WHERE k = 1
SELECT l.k, least(l.a, r.a) AS r FROM v_date l JOIN v_timestamp r USING (k) WHERE k = 1
