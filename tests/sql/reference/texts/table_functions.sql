-- functions in FROM whose rows are the elements of a list
SELECT l.id, u FROM lists l, unnest(l.l) u
SELECT l.id, u.v FROM lists l CROSS JOIN unnest(l.l) AS u(v)
SELECT l.id, u.v FROM lists l LEFT JOIN unnest(l.l) AS u(v) ON true
SELECT l.id, u.v FROM lists l LEFT JOIN LATERAL unnest(l.l) AS u(v) ON u.v > 1
SELECT l.id, u.v FROM lists l JOIN unnest(l.l) AS u(v) ON u.v > 1
SELECT * FROM unnest(ARRAY[1,2,3]) u
SELECT * FROM unnest(ARRAY[1,2,3])
SELECT unnest FROM unnest(ARRAY[1,2,3])
SELECT u + 1 AS r FROM unnest(ARRAY[1,2,3]) u WHERE u > 1
SELECT * FROM unnest(ARRAY[1,2,3]) WITH ORDINALITY u(v, n)
SELECT * FROM unnest(ARRAY[1,2,3]) WITH ORDINALITY
SELECT * FROM unnest(ARRAY[1,2,3]) WITH ORDINALITY AS u
SELECT * FROM unnest(ARRAY[1,2,3], ARRAY['a','b']) u(v, n)
SELECT * FROM unnest(ARRAY[1,2,3], ARRAY['a','b']) WITH ORDINALITY u(v, n, o)
SELECT l.id, u.v, u.n FROM lists l, unnest(l.l) WITH ORDINALITY AS u(v, n)
SELECT l.id, u.v, u.w FROM lists l, unnest(l.l, l.t) AS u(v, w)
SELECT l.id, u.v FROM lists l, unnest(l) AS u(v)
SELECT id, v FROM lists, unnest(l) AS u(v) WHERE v > 2 ORDER BY id, v
SELECT id, v, w FROM lists, unnest(l) AS u(v), unnest(t) AS z(w) WHERE v > 2 ORDER BY id, v, w
SELECT l.id, (SELECT max(u) FROM unnest(l.l) u) AS m FROM lists l
SELECT l.id, (SELECT count(*) FROM unnest(l.l)) AS m FROM lists l
SELECT l.id, ARRAY(SELECT v * 2 FROM unnest(l.l) u(v) WHERE v IS NOT NULL ORDER BY v) AS m FROM lists l
SELECT l.id FROM lists l WHERE EXISTS (SELECT 1 FROM unnest(l.l) u(v) WHERE u.v > 2)
SELECT l.id FROM lists l WHERE 2 IN (SELECT v FROM unnest(l.l) u(v))
SELECT l.id FROM lists l WHERE 2 NOT IN (SELECT v FROM unnest(l.l) u(v))
SELECT l.id FROM lists l WHERE 2 IN (SELECT unnest(l.l))
SELECT n FROM generate_series(1, 3) n
SELECT * FROM generate_series(1, 3)
SELECT generate_series FROM generate_series(1, 3)
SELECT * FROM generate_series(1, 3) AS t
SELECT t.t FROM generate_series(1, 3) AS t
SELECT * FROM generate_series(1, 3) AS t(n)
SELECT * FROM generate_series(10, 1, -4) AS t(n)
SELECT * FROM generate_series(1, 3) WITH ORDINALITY AS t(n, o)
SELECT a.x, s.n FROM a, generate_series(1, a.g) s(n)
SELECT a.x, s FROM a, LATERAL generate_series(1, a.g) s
SELECT a.x, s.n FROM a LEFT JOIN generate_series(2, a.g) s(n) ON true
SELECT a.x, count(*) AS n FROM a, generate_series(1, a.g) s(n) GROUP BY a.x
SELECT n, x FROM generate_series(1, 4) n LEFT JOIN a ON a.x = n
SELECT s.d FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') s(d)
SELECT stays.id, s.d FROM stays, generate_series(stays.opened, stays.opened + interval '2 days', interval '1 day') s(d) WHERE stays.id < 3
SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM generate_series(1, a.g) n WHERE n = a.x)
SELECT a.x, l.n FROM a, LATERAL (SELECT n FROM generate_series(1, a.g) n WHERE n <> a.x) l
SELECT x FROM (SELECT unnest(ARRAY[3, 1]) AS x) s ORDER BY x
INSERT INTO e SELECT v, id FROM lists, unnest(l) AS u(v)
DELETE FROM a WHERE x IN (SELECT v FROM lists, unnest(l) AS u(v))
DELETE FROM a WHERE EXISTS (SELECT 1 FROM generate_series(1, a.g) n WHERE n = a.x)
UPDATE a SET x = (SELECT sum(n) FROM generate_series(1, a.g) n)
WITH w AS (SELECT id, v FROM lists, unnest(l) AS u(v)) SELECT id, sum(v) AS s FROM w GROUP BY id
SELECT w FROM words, unnest(string_to_array(w, ' ')) AS p(q) WHERE q <> ''
SELECT id, q FROM words, unnest(string_to_array(w, ' ')) AS q
SELECT generate_series(1, 3) AS n
SELECT x, generate_series(1, x) AS n FROM a WHERE x < 4
SELECT max(x) AS m, generate_series(1, 2) AS n FROM a
SELECT generate_series(1, 3) * 10 AS n, 'a' AS t
SELECT generate_series(1, 3) AS n, generate_series(1, 2) AS o
SELECT generate_series(5, 1, -2) AS n ORDER BY n
SELECT generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day')::date AS d
SELECT n, count(*) AS c FROM (SELECT generate_series(1, x) AS n FROM a) t GROUP BY n
SELECT x FROM a WHERE x IN (SELECT generate_series(2, 3))
SELECT d::text AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') d ORDER BY 1
SELECT u::text AS r FROM unnest(ARRAY[1.5::double precision, 2]) u ORDER BY 1
SELECT u::int AS r FROM unnest(ARRAY[1.5, 2.5]) u ORDER BY 1
SELECT d || 'x' AS r FROM unnest(ARRAY[timestamp '2024-01-01 08:00', timestamp '2024-01-01 08:00:00.5']) AS t(d) ORDER BY 1
SELECT t.d::text AS r FROM unnest(ARRAY[timestamp '2024-01-01 08:00']) AS t(d) ORDER BY 1
SELECT unnest::text AS r FROM unnest(ARRAY[timestamp '2024-01-01 08:00']) ORDER BY 1
SELECT generate_series::text AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') ORDER BY 1
SELECT d::text AS r FROM generate_series(timestamptz '2024-01-01 00:00+00', timestamptz '2024-01-03 00:00+00', interval '1 day') d ORDER BY 1
SELECT d::text AS r FROM generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') d ORDER BY 1
SELECT d::date::text AS r FROM generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') d ORDER BY 1
SELECT d + interval '1 hour' > timestamp '2024-01-02' AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') d ORDER BY 1
SELECT n / 2.0 AS r FROM generate_series(1, 3) n ORDER BY 1
SELECT n::text || 'a' AS r FROM generate_series(1, 3) n ORDER BY 1
SELECT n::numeric / 3 AS r FROM generate_series(1, 3) n ORDER BY 1
SELECT a::text AS r, o FROM unnest(ARRAY[timestamp '2024-01-01', timestamp '2024-01-02']) WITH ORDINALITY AS t(a, o) ORDER BY 1
SELECT a::text AS r, b::text AS q FROM unnest(ARRAY[timestamp '2024-01-01', timestamp '2024-01-02'], ARRAY[1.5::real, 2]) AS t(a, b) ORDER BY 1
SELECT id, u::text AS r FROM stays, unnest(ARRAY[seen, seen + interval '1 day']) u ORDER BY 1, 2
SELECT id, u::text AS r FROM stays CROSS JOIN LATERAL unnest(ARRAY[lasted]) u ORDER BY 1, 2
SELECT concat(d, '!') AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') AS g(d) ORDER BY 1
SELECT (SELECT max(d)::text FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') d) AS r
WITH s AS (SELECT d FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day') d) SELECT d::text AS r FROM s ORDER BY 1
SELECT sum(u)::int AS r FROM unnest(ARRAY[1.4, 2.1]) u
SELECT round(u) AS r FROM unnest(ARRAY[0.5::double precision, 2.5]) u ORDER BY 1
SELECT u::text AS r FROM unnest(ARRAY[interval '1 day', interval '26 hours']) u ORDER BY 1
SELECT u::text AS r FROM unnest(ARRAY[true, false]) u ORDER BY 1
SELECT u::text AS r FROM unnest(string_to_array('a,b', ',')) u ORDER BY 1
SELECT extract(hour FROM d)::text AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-01 02:00', interval '1 hour') d ORDER BY 1
SELECT d AT TIME ZONE 'Asia/Tokyo' AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-01 02:00', interval '1 hour') d ORDER BY 1
SELECT d - timestamp '2024-01-01' > interval '1 hour' AS r FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-01 02:00', interval '1 hour') d ORDER BY 1
SELECT x / 2 AS r FROM unnest(ARRAY[1.0, 2.5]) x ORDER BY 1
SELECT d AS r FROM generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') d ORDER BY 1
SELECT generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') AS r ORDER BY 1
SELECT generate_series(date '2024-01-01', date '2024-01-03', interval '1 day')::text AS r ORDER BY 1
SELECT generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day')::text AS r ORDER BY 1
SELECT d AS r FROM generate_series(CAST(date '2024-01-01' AS timestamptz), timestamptz '2024-01-03 00:00+00', interval '1 day') d ORDER BY 1
SELECT d AS r FROM generate_series('2024-01-01'::timestamptz, timestamptz '2024-01-03 00:00+00', interval '1 day') d ORDER BY 1
SELECT d AS r FROM generate_series(date '2024-01-01' + 1, date '2024-01-03', interval '1 day') d ORDER BY 1
