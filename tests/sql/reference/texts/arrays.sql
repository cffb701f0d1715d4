SELECT ARRAY[1, 2, 3] AS a, ARRAY['a', NULL] AS b, ARRAY[]::int[] AS c, ARRAY[[1, 2], [3, 4]] AS d
SELECT '{1,2}'::int[] AS r
SELECT '{a,"b c",NULL}'::text[] AS r
SELECT '{}'::int[] AS r
SELECT id, l[1] AS a, l[2] AS b, l[9] AS c, l[0] AS d FROM lists
SELECT id, l[1:2] AS r FROM lists
SELECT id, l[2:] AS r FROM lists
SELECT id, l[:1] AS r FROM lists
SELECT id, array_length(l, 1) AS r FROM lists
SELECT id, cardinality(l) AS r FROM lists
SELECT id, array_upper(l, 1) AS r FROM lists
SELECT id, array_lower(l, 1) AS r FROM lists
SELECT array_length(ARRAY[]::int[], 1) AS r
SELECT cardinality(ARRAY[]::int[]) AS r
SELECT array_ndims(ARRAY[[1], [2]]) AS r
SELECT id, l || 9 AS a, 0 || l AS b, l || ARRAY[8, 9] AS c FROM lists
SELECT id, array_append(l, 9) AS a, array_prepend(0, l) AS b, array_cat(l, l) AS c FROM lists
SELECT id, array_remove(l, 3) AS r FROM lists
SELECT id, array_replace(l, 1, 100) AS r FROM lists
SELECT id, array_position(l, 3) AS a, array_positions(l, 3) AS b FROM lists
SELECT id, l @> ARRAY[3] AS r FROM lists
SELECT id, l <@ ARRAY[1, 2, 3] AS r FROM lists
SELECT id, l && ARRAY[2, 7] AS r FROM lists
SELECT id, l = ARRAY[1, 2, 3] AS a, l < ARRAY[2] AS b, l <> ARRAY[7] AS c FROM lists
SELECT id FROM lists WHERE l IS NULL OR l = '{7}'
SELECT id FROM lists WHERE 2 = ANY (l)
SELECT id FROM lists WHERE 2 <> ALL (l)
SELECT id FROM lists WHERE NOT 2 = ANY (l)
SELECT id FROM lists WHERE 'b' = ANY (t)
SELECT id FROM lists WHERE 3 <= ALL (l)
SELECT id, array_to_string(l, ',') AS a, array_to_string(t, '-', '?') AS b FROM lists
SELECT id, (SELECT max(v) FROM unnest(l) u(v)) AS m FROM lists
SELECT id, (SELECT count(*) FROM unnest(l) u(v) WHERE v > 1) AS n FROM lists
SELECT id, ARRAY(SELECT v + 1 FROM unnest(l) u(v) ORDER BY v) AS n FROM lists
SELECT sum(v) AS s FROM lists, unnest(l) u(v)
SELECT array_agg(id ORDER BY id DESC) AS a FROM lists
SELECT array_agg(l[1] ORDER BY id) AS a FROM lists
SELECT t, count(*) AS n FROM lists GROUP BY t
SELECT DISTINCT l FROM lists
SELECT id FROM lists ORDER BY t, id
SELECT id, coalesce(l, '{}') AS a FROM lists
SELECT id, CASE WHEN l IS NULL THEN ARRAY[0] ELSE l END AS a FROM lists
SELECT l.id FROM lists l JOIN lists r ON l.l && r.l AND l.id < r.id
SELECT r.id AS r FROM lists l JOIN lists r ON l.l && r.l AND l.id < r.id
SELECT ARRAY[1, 2] = ARRAY[1, 2] AS a, ARRAY[1, 2] < ARRAY[1, 3] AS b, ARRAY[1, NULL] = ARRAY[1, NULL] AS c
SELECT ARRAY[1, 2] || 3 AS r
SELECT 0 || ARRAY[1] AS r
SELECT ARRAY[1] || NULL AS r
SELECT NULL || ARRAY[1] AS r
SELECT 1 = ANY (ARRAY[1, 2]) AS r
SELECT 3 = ANY (ARRAY[1, NULL]) AS r
SELECT 1 <> ALL (ARRAY[2, 3]) AS r
SELECT 1 = ANY (NULL::int[]) AS r
SELECT 1 = ANY ('{}') AS r
SELECT array_fill(7, ARRAY[3]) AS r
SELECT trim_array(ARRAY[1, 2, 3], 1) AS r
SELECT ARRAY[1, 2]::text[] AS r
SELECT ARRAY['1', '2']::int[] AS r
SELECT ARRAY[1, 2.5] AS r
SELECT ARRAY[1.5, 2]::int[] AS r
SELECT (ARRAY[10, 20, 30])[2] AS a, (ARRAY[[1, 2], [3, 4]])[2][1] AS b, (string_to_array('a,b', ','))[1] AS c
SELECT ARRAY[1, 2]::text AS r
SELECT ARRAY['a b', NULL]::text AS r
SELECT unnest(ARRAY[3, 1, 2]) AS v ORDER BY v
SELECT unnest(ARRAY[1, 2]) AS v, unnest(ARRAY['a', 'b', 'c']) AS w
SELECT v * 2 AS d FROM unnest(ARRAY[1, 2, 3]) AS v WHERE v > 1
SELECT generate_subscripts(ARRAY['a', 'b'], 1) AS i
SELECT array_agg(v ORDER BY v DESC) AS a FROM unnest(ARRAY[1, 3, 2]) u(v)
WITH t(i, l) AS (VALUES (1, ARRAY[7, NULL]), (2, ARRAY[1, NULL]), (3, ARRAY[7]), (4, ARRAY[1]), (5, NULL::int[]), (6, ARRAY[]::int[]), (7, ARRAY[NULL]::int[])) SELECT i, 7 = ANY (l), NOT 7 = ANY (l), NULL = ANY (l), (SELECT 1) = ANY (l), i = ANY (l), i = SOME (l) FROM t ORDER BY i
WITH t(i, l) AS (VALUES (1, ARRAY[7, NULL]), (2, ARRAY[1, NULL]), (3, ARRAY[7]), (4, ARRAY[1]), (5, NULL::int[]), (6, ARRAY[]::int[]), (7, ARRAY[NULL]::int[])) SELECT i FROM t WHERE NOT 7 = ANY (l) ORDER BY i
WITH t(i, l) AS (VALUES (1, ARRAY[7, NULL]), (2, ARRAY[1, NULL]), (3, ARRAY[7]), (4, ARRAY[1]), (5, NULL::int[]), (6, ARRAY[]::int[]), (7, ARRAY[NULL]::int[])) SELECT i, 7 <> ALL (l), 7 < ALL (l), 7 > ANY(l), 7 >= ALL (l), 7 = ALL (l), NULL <> ALL (l), 7 <> ANY (l), NULL < ANY (l) FROM t ORDER BY i
WITH t(i, l) AS (VALUES (1, ARRAY['a', NULL]), (2, ARRAY['b']), (3, NULL)) SELECT i, 'a' = ANY (l), NOT ('a' = ANY (l)), 'a' <> ALL (l), NULL::text = ANY (l) FROM t ORDER BY i
SELECT 3 <> ALL (ARRAY[1, 2, NULL]), 3 <> ALL (ARRAY[3, NULL]), 3 = ALL (ARRAY[3, NULL]), 3 = ALL (ARRAY[3,3]), 1 < ALL (ARRAY[2, 3]), NULL = ALL (ARRAY[1]), NULL <> ALL (ARRAY[]::int[])
SELECT array_remove(ARRAY[1, 2, 2, 3], 2) AS a, array_remove(ARRAY[1, NULL, 2, NULL], NULL) AS b
SELECT k, array_remove(a, b[1]) AS r FROM v_ints
SELECT k, array_remove(a, b[1]) AS r FROM v_texts
SELECT id, array_remove(l || l, NULL) AS r FROM lists
SELECT array_replace(ARRAY[1, 2, 2, 3], 2, 5) AS a, array_replace(ARRAY[1, NULL, NULL], NULL, 5) AS b
SELECT k, array_replace(a || a, b[1], NULL) AS r FROM v_ints
SELECT array_agg(DISTINCT g) AS r FROM nums
SELECT g, array_agg(DISTINCT x) AS r FROM nums GROUP BY g
SELECT g, array_agg(DISTINCT x) FILTER (WHERE y > 5) AS r FROM nums GROUP BY g
SELECT string_agg(DISTINCT g, '-') AS r FROM nums
SELECT boss, string_agg(DISTINCT dept, ', ') AS r FROM emp GROUP BY boss
SELECT array_agg(DISTINCT x ORDER BY x DESC) AS r FROM nums
SELECT '{1,2}'::int[] AS r, '{}'::int[] AS b, CAST('{1,NULL}' AS int[]) AS c, '{1.5,2}'::numeric(3,1)[] AS d
SELECT ARRAY[1] || NULL AS r, NULL || ARRAY[1] AS b
SELECT id, array_remove(l, 3) AS r, array_length(l, 1) AS n FROM lists
SELECT id FROM lists WHERE l < '{2,5}' ORDER BY id
SELECT id, max(l) OVER () AS m, min(l) OVER (PARTITION BY id % 2) AS n FROM lists
SELECT id, l FROM lists ORDER BY l, id
SELECT id, l FROM lists ORDER BY 2 DESC, 1
SELECT * FROM lists ORDER BY 2 DESC NULLS LAST LIMIT 2
SELECT * FROM lists ORDER BY l LIMIT 1
SELECT id FROM lists ORDER BY t DESC, id LIMIT 3
SELECT id FROM lists WHERE l < ARRAY[2,5] ORDER BY id
SELECT id FROM lists WHERE l BETWEEN ARRAY[2,0] AND ARRAY[2,NULL] ORDER BY id
SELECT id FROM lists WHERE NOT l >= ARRAY[2,5] ORDER BY id
SELECT max(l), min(l), max(t), min(t) FROM lists
SELECT id % 2 AS g, max(l) FILTER (WHERE id <> 4) AS m, min(t) AS n FROM lists GROUP BY id % 2 HAVING max(l) > ARRAY[2, 4] ORDER BY 2, 1
SELECT id, greatest(l, ARRAY[2,5]) AS a, least(l, ARRAY[2,5], ARRAY[2]) AS b FROM lists ORDER BY id
SELECT DISTINCT l FROM lists ORDER BY l
SELECT DISTINCT l FROM lists ORDER BY 1 DESC
SELECT l FROM lists UNION SELECT ARRAY[2,5] ORDER BY l
SELECT l FROM lists UNION ALL SELECT ARRAY[2,5] ORDER BY 1 DESC
SELECT DISTINCT ON (l) l, id FROM lists ORDER BY l DESC, id
SELECT array_agg(id ORDER BY l, id) FROM lists
SELECT id, row_number() OVER (ORDER BY l, id) AS n FROM lists ORDER BY id
SELECT a.id AS i, b.id AS j FROM lists a JOIN lists b ON a.l < b.l ORDER BY 1, 2
SELECT id FROM lists WHERE l > ALL (SELECT r.l FROM lists r WHERE r.id = 1) ORDER BY id
SELECT id FROM lists x WHERE l <= ANY (SELECT r.l FROM lists r WHERE r.id <> x.id) ORDER BY id
SELECT id FROM lists WHERE l > (SELECT l FROM lists WHERE id = 1) ORDER BY id
DELETE FROM lists WHERE l < ARRAY[2,5]
UPDATE lists SET id = id + 10 WHERE l > ARRAY[2, 9] AND t < ARRAY['c']
SELECT ARRAY[1.5,NULL] < ARRAY[1.5,2] AS a, ARRAY['a',NULL] < ARRAY['a','b'] AS b, ARRAY[true,NULL] > ARRAY[true,true] AS c, ARRAY[date '2024-01-01',NULL] > ARRAY[date '2024-01-01',date '2024-01-01'] AS d
SELECT ARRAY[timestamp '2024-01-01',NULL] > ARRAY[timestamp '2024-01-01',timestamp '2024-01-01'] AS d, ARRAY[1::double precision, 'NaN'::double precision] < ARRAY[1::double precision, NULL] AS e, ARRAY[NULL]::int[] < ARRAY[]::int[] AS f, ARRAY[NULL]::int[] > ARRAY[1,NULL] AS g, NULL::int[] < ARRAY[1] AS h
SELECT k, a < b AS r, a >= b AS s, greatest(a,b) AS g FROM v_ints ORDER BY k
SELECT k, a < b AS r, a >= b AS s, greatest(a,b) AS g FROM v_texts ORDER BY k
WITH q AS (SELECT id, l || NULL AS m FROM lists) SELECT id FROM q WHERE m > ARRAY[2, 4] ORDER BY m DESC, id
SELECT g, array_agg(x ORDER BY id) AS l FROM nums GROUP BY g ORDER BY 2
SELECT g, array_agg(x ORDER BY id) AS l FROM nums GROUP BY g HAVING array_agg(x ORDER BY id) > ARRAY[1,2,2] ORDER BY l DESC
SELECT id FROM lists WHERE (id, l) > (1, ARRAY[2,5]) ORDER BY id
SELECT id, l < ARRAY[2, 5] AS r, CASE WHEN l >= ARRAY[2, 5] THEN 1 END AS c FROM lists ORDER BY id
SELECT * FROM (SELECT l, id FROM lists) q ORDER BY 1, 2
SELECT string_to_array('a,b', ',') < string_to_array('a,c', ',') AS r, string_to_array('a,b', ',', 'b') > string_to_array('a,c', ',') AS s
SELECT count(*) FROM lists GROUP BY l ORDER BY l
SELECT l, count(*) AS n FROM lists GROUP BY l ORDER BY max(l) DESC, 2
SELECT id FROM lists WHERE l < ARRAY[2, NULL] ORDER BY id
SELECT ARRAY[[1,NULL],[2,3]] < ARRAY[[1,2],[2,3]] AS a
