-- name: call above a join
-- fewer
SELECT p.id, l.thing, ai_gen('x', p.note) FROM people p JOIN likes l ON p.id = l.person_id

-- name: call over both sides
SELECT p.id, l.thing, ai_gen('x', p.note, l.thing) FROM people p JOIN likes l ON p.id = l.person_id

-- name: filter over one side
-- fewer
SELECT p.id, l.thing FROM people p JOIN likes l ON p.id = l.person_id WHERE ai_filter('x', p.note) AND l.weight > 1

-- name: call in an inner join, one-sided
SELECT p.id, l.thing FROM people p JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note)

-- name: call in an inner join, two-sided
SELECT p.id, l.thing FROM people p JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note, l.thing)

-- name: join by a call alone
SELECT p.id, l.thing FROM people p JOIN likes l ON ai_filter('do {name} and {thing} fit', p.name, l.thing)

-- name: join on equal answers
SELECT a.id, b.id FROM people a JOIN people b ON ai_sentiment(a.note) = ai_sentiment(b.note) AND a.id < b.id

-- name: left join, call on the left
SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note)

-- name: left join, call on the right
SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)

-- name: left join, calls on both sides
SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note) AND ai_filter('y', l.thing)

-- name: left join, call over both sides
SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note, l.thing)

-- name: right join, call on the left
SELECT p.id, l.thing FROM people p RIGHT JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note)

-- name: right join, call on the right
SELECT p.id, l.thing FROM people p RIGHT JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)

-- name: full join, call on either side
SELECT p.id, l.thing FROM people p FULL JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note) AND l.weight > 1

-- name: full join, call above
SELECT p.id, l.thing, ai_gen('x', p.note, l.thing) FROM people p FULL JOIN likes l ON p.id = l.person_id

-- name: filter above a left join
SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id
WHERE ai_filter('x', l.thing) AND p.score > 1

-- name: null test above a left join with a call below
SELECT p.id FROM people p LEFT JOIN (SELECT *, ai_gen('x', thing) AS g FROM likes) l ON p.id = l.person_id
WHERE l.weight IS NULL AND p.score > 1

-- name: filter on the kept side of a left join with calls
SELECT p.id, g, h FROM (SELECT *, ai_gen('x', note) AS g FROM people) p
LEFT JOIN (SELECT *, ai_gen('y', thing) AS h FROM likes) l ON p.id = l.person_id WHERE p.score > 1 AND l.weight > 1

-- name: filter on both sides of a full join with calls
SELECT p.id, g, h FROM (SELECT *, ai_gen('x', note) AS g FROM people) p
FULL JOIN (SELECT *, ai_gen('y', thing) AS h FROM likes) l ON p.id = l.person_id
WHERE coalesce(p.score, 0) < 3 AND coalesce(l.weight, 9) > 1

-- name: cross join
SELECT p.id, l.thing FROM people p CROSS JOIN likes l WHERE ai_filter('x', p.name, l.thing) AND p.id < 4

-- name: comma join
SELECT p.id, l.thing FROM people p, likes l WHERE p.id = l.person_id AND ai_filter('x', p.name, l.thing)

-- name: using
SELECT id, ai_gen('x', note, thing) FROM people JOIN (SELECT person_id AS id, thing FROM likes) AS l USING (id)

-- name: natural join
SELECT id, ai_gen('x', note, thing) FROM people NATURAL JOIN (SELECT person_id AS id, thing FROM likes) AS l

-- name: self join of answers
-- fewer
SELECT a.id, b.id FROM (SELECT id, ai_sentiment(note) AS s FROM people) a JOIN (SELECT id, ai_sentiment(note) AS s FROM people) b
ON a.s = b.s

-- name: three tables
-- fewer
SELECT m.title, r.critic, ai_gen('Recommend?', m.movie_info, r.review_content) FROM movies m
JOIN reviews r ON m.movie_id = r.movie_id JOIN (SELECT DISTINCT rating FROM movies WHERE movie_id < 4) x ON m.rating = x.rating
WHERE r.top_critic AND ai_filter('Suitable?', m.movie_info) AND m.movie_id < 60

-- name: semi join
SELECT p.id FROM people p LEFT SEMI JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)

-- name: anti join
SELECT p.id FROM people p LEFT ANTI JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)

-- name: right semi join
SELECT l.thing FROM people p RIGHT SEMI JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note)

-- name: right anti join
SELECT l.thing FROM people p RIGHT ANTI JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note)

-- name: lateral
SELECT p.id, x.n FROM people p, LATERAL (SELECT count(*) AS n FROM likes l WHERE l.person_id = p.id AND ai_filter('x', l.thing)) x

-- name: unnest
-- fallback: Unsupported plan type: Unnest
SELECT id, unnest(ai_classify(note, ['a', 'b', 'c'], multi => true)) AS label FROM people

-- name: outer join of which no column is read
SELECT 1 AS one FROM people LEFT JOIN likes ON ai_filter('x', thing)

-- name: rows of a full join counted
SELECT count(*) FROM people p FULL JOIN likes l ON ai_filter('x', p.note)

-- name: right join of which one side is read
SELECT p.id, count(*) FROM people p RIGHT JOIN likes l ON ai_filter('x', p.note) GROUP BY p.id

-- name: semi join counted
SELECT count(*) FROM people p LEFT SEMI JOIN likes l ON ai_filter('x', l.thing)

-- name: filters on both sides of a right join of answers
SELECT a, b, g, h FROM (SELECT id AS a, score, ai_gen('x', note) AS g FROM people) p
RIGHT JOIN (SELECT person_id AS b, weight, ai_gen('y', thing) AS h FROM likes) l ON p.score = l.weight
WHERE (p.a IS NULL OR p.a < 3) AND l.h IS NOT NULL

-- name: left part of ON across the key
SELECT p.id, l.g FROM people p LEFT JOIN (SELECT person_id, ai_gen('x', thing) AS g FROM likes) l
ON p.id = l.person_id AND p.id > 1

-- name: right semi join with a filter above
SELECT person_id FROM (SELECT id, ai_gen('x', note) AS g FROM people) p
RIGHT SEMI JOIN likes l ON p.id = l.person_id AND p.g > '' WHERE l.person_id < 3

-- name: filters on both sides of a right join of tables
SELECT p.id, p.score, l.person_id, l.weight, ai_gen('x', l.thing) FROM people p RIGHT JOIN likes l ON p.score = l.weight
WHERE (p.id IS NULL OR p.id < 3) AND l.thing IS NOT NULL

-- name: filters on both sides of a full join of tables
SELECT p.id, l.person_id, ai_gen('x', l.thing) FROM people p FULL JOIN likes l ON p.id = l.person_id
WHERE coalesce(p.score, 0) < 3 AND l.thing IS NOT NULL
