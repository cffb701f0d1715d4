-- name: cte
-- fewer
WITH c AS (SELECT id, ai_gen('x', note) AS g, score FROM people) SELECT id, g FROM c WHERE score > 2

-- name: cte twice
WITH c AS (SELECT id, ai_sentiment(note) AS s FROM people) SELECT a.id, b.id FROM c a JOIN c b ON a.s = b.s AND a.id < b.id

-- name: cte on cte
WITH a AS (SELECT id, note FROM people WHERE ai_filter('x', note)), b AS (SELECT id, ai_gen('y', note) AS g FROM a)
SELECT count(*), max(g) FROM b

-- name: cte with column names
WITH c (k, v) AS (SELECT id, ai_gen('x', note) FROM people) SELECT k, v FROM c WHERE k < 5

-- name: recursive cte
-- fallback: Unsupported plan type: RecursiveQuery
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT i, ai_gen('x', i) FROM n

-- name: derived table
SELECT g, count(*) FROM (SELECT ai_sentiment(note) AS g FROM people WHERE id < 8) t GROUP BY g

-- name: in
SELECT id FROM people WHERE id IN (SELECT person_id FROM likes WHERE ai_filter('x', thing))

-- name: a call in a list of answers
SELECT id FROM people WHERE ai_sentiment(note) IN (SELECT ai_sentiment(thing) FROM likes)

-- name: not in without NULL
SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE person_id IS NOT NULL AND ai_filter('x', thing))

-- name: not in with NULL in the list
SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes) AND ai_filter('x', note)

-- name: not in with NULL on the left
SELECT id FROM people WHERE name NOT IN (SELECT thing FROM likes WHERE thing IS NOT NULL) AND coalesce(ai_filter('x', note), true)

-- name: not in an empty list
SELECT id FROM people WHERE name NOT IN (SELECT thing FROM likes WHERE weight > 100) AND coalesce(ai_filter('x', note), true)

-- name: not in a list filtered by a call
SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE ai_filter('x', thing))

-- name: not in answers with NULLs
SELECT id FROM people WHERE name NOT IN (SELECT ai_gen('x', thing) FROM likes)

-- name: in or plain
SELECT id FROM people WHERE id IN (SELECT person_id FROM likes WHERE ai_filter('x', thing)) OR score > 3

-- name: sorted by a subquery with a call
-- ordered
-- fallback: is in a sort
SELECT id FROM people ORDER BY (SELECT max(ai_gen('x', thing)) FROM likes), id

-- name: correlated in
SELECT id FROM people p WHERE 'tea' IN (SELECT thing FROM likes l WHERE l.person_id = p.id AND ai_filter('x', l.thing))

-- name: exists
SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM likes l WHERE l.person_id = p.id AND ai_filter('x', l.thing))

-- name: exists over both
SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM likes l WHERE l.person_id = p.id AND ai_filter('x', p.note, l.thing))

-- name: not exists
SELECT id FROM people p WHERE NOT EXISTS (SELECT 1 FROM likes l WHERE l.person_id = p.id AND ai_filter('x', l.thing))

-- name: exists uncorrelated
SELECT id FROM people WHERE EXISTS (SELECT 1 FROM likes WHERE ai_filter('x', thing))

-- name: exists with a filter beside it
-- fewer
SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM likes l WHERE l.person_id = p.id) AND ai_filter('x', p.note)

-- name: scalar
SELECT id FROM people WHERE score > (SELECT avg(ai_score('x', thing)) / 3 FROM likes)

-- name: scalar selected
SELECT id, (SELECT max(ai_gen('x', thing)) FROM likes) AS m FROM people

-- name: scalar of one row
-- fallback: can return several rows
SELECT id, (SELECT ai_gen('x', thing) FROM likes WHERE weight = 9) AS g FROM people

-- name: scalar of no row
-- fallback: can return several rows
SELECT id, (SELECT ai_gen('x', thing) FROM likes WHERE weight = 99) AS g FROM people

-- name: scalar correlated
SELECT id, (SELECT avg(ai_score('x', l.thing)) FROM likes l WHERE l.person_id = p.id) AS a FROM people p

-- name: scalar correlated in where
SELECT id FROM people p WHERE score > (SELECT count(*) FROM likes l WHERE l.person_id = p.id AND ai_filter('x', l.thing))

-- name: scalar plain beside a call
SELECT id, ai_gen('x', note) FROM people WHERE score > (SELECT avg(weight) / 2 FROM likes)

-- name: scalar as an argument
SELECT id, ai_gen('Compare {note} with {top}', note, top => (SELECT max(thing) FROM likes)) FROM people

-- name: union
SELECT ai_sentiment(note) AS s FROM people UNION SELECT ai_sentiment(thing) FROM likes

-- name: union all
-- fewer
SELECT id, ai_gen('x', note) FROM people UNION ALL SELECT id, ai_gen('x', note) FROM people WHERE flag

-- name: filter above a union of answers
-- fewer
SELECT * FROM (SELECT id, ai_gen('x', note) AS g FROM people UNION ALL SELECT person_id, ai_gen('y', thing) FROM likes)
WHERE id < 3

-- name: intersect
SELECT ai_sentiment(note) FROM people INTERSECT SELECT ai_sentiment(thing) FROM likes

-- name: except
SELECT ai_sentiment(note) FROM people EXCEPT SELECT ai_sentiment(thing) FROM likes

-- name: intersect all
SELECT ai_sentiment(note) FROM people INTERSECT ALL SELECT ai_sentiment(thing) FROM likes

-- name: except all
SELECT ai_sentiment(note) FROM people EXCEPT ALL SELECT ai_sentiment(thing) FROM likes

-- name: set operation with a condition above
SELECT * FROM (SELECT id, ai_filter('x', note) AS f FROM people EXCEPT SELECT id, flag FROM people) WHERE id > 2

-- name: view
SELECT id, mood FROM moods WHERE id > 2

-- name: view unused answers
SELECT id FROM moods

-- name: view on view
SELECT mood, n FROM mood_counts WHERE n > 1

-- name: view joined with itself
SELECT a.id, b.id FROM moods a JOIN moods b ON a.mood = b.mood AND a.id < b.id

-- name: view as a field
SELECT ai_gen('x', moods.*) FROM moods

-- name: deep nesting
SELECT g FROM (SELECT ai_gen('c', h) AS g, id FROM (SELECT ai_gen('b', k) AS h, id FROM (SELECT ai_gen('a', note) AS k, id
FROM people WHERE id < 7))) WHERE id > 1

-- name: all columns of a subquery inside a CTE
WITH c AS (SELECT id, note FROM people WHERE ai_filter('x', note)),
  d AS (SELECT t.id, ai_gen('y', t.*) AS g FROM (SELECT id, ai_gen('z', note) AS n FROM c) t)
SELECT d.g FROM d
