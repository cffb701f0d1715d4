-- name: answers of a derived table, joined
-- fewer
SELECT p.id, g, thing FROM (SELECT id, ai_gen('x', note) AS g FROM people) p JOIN likes l ON p.id = l.person_id

-- name: filters of two derived tables, joined
-- fewer
SELECT m.title, r.critic FROM (SELECT * FROM movies WHERE ai_filter('x', movie_info)) m
JOIN (SELECT * FROM reviews WHERE ai_filter('y', review_content) AND review_id < 300) r ON m.movie_id = r.movie_id

-- name: filter joined with few rows
-- fewer
WITH good AS (SELECT movie_id, title FROM movies WHERE ai_filter('x', movie_info))
SELECT title, review_score FROM good JOIN reviews USING (movie_id) WHERE review_id < 40

-- name: answers of both sides compared after the join
-- fewer
SELECT m.movie_id, review_id FROM (SELECT movie_id, ai_score('x', movie_info) AS a FROM movies) m
JOIN (SELECT review_id, movie_id, ai_score('y', review_content) AS b FROM reviews WHERE review_id < 100) r
ON m.movie_id = r.movie_id AND a > b

-- name: optional answers and what is computed from them
-- fewer
SELECT l.person_id, g, coalesce(g, 'none') AS c, one FROM likes l
LEFT JOIN (SELECT id, 1 AS one, ai_gen('x', note) AS g FROM people) p ON l.person_id = p.id

-- name: two optional sides
-- fewer
SELECT l.thing, g, h FROM likes l LEFT JOIN (SELECT id, ai_gen('x', note) AS g FROM people) p ON l.person_id = p.id
LEFT JOIN (SELECT id, coalesce(ai_gen('y', name), 'none') AS h FROM people) q ON l.weight = q.id

-- name: filter on an optional side
-- fewer
SELECT p.id, l.thing FROM people p LEFT JOIN (SELECT * FROM likes WHERE ai_filter('x', thing)) l ON p.id = l.person_id

-- name: kept side of a full join
SELECT g, thing FROM (SELECT id, ai_gen('x', note) AS g FROM people) p FULL JOIN likes l ON p.id = l.person_id

-- name: exists with a call inside
-- fewer
SELECT title FROM movies m WHERE movie_id < 20
AND EXISTS (SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content))

-- name: not exists with a call inside
-- fewer
SELECT title FROM movies m WHERE movie_id < 20
AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content))

-- name: in or a column
-- fewer
SELECT id FROM people WHERE flag OR id IN (SELECT person_id FROM likes WHERE ai_filter('x', thing))

-- name: groups of answers joined with few of them
-- fewer
SELECT a.genre, s, b.year FROM (SELECT genre, avg(ai_score('x', title)) AS s FROM movies GROUP BY genre) a
JOIN (SELECT genre, release_year AS year FROM movies WHERE movie_id < 3) b ON a.genre = b.genre

-- name: groups of answers that others do not have
-- fewer
SELECT genre, s FROM (SELECT genre, avg(ai_score('x', title)) AS s FROM movies GROUP BY genre)
WHERE genre NOT IN (SELECT genre FROM movies WHERE movie_id < 3)

-- name: intersect of filtered rows
-- fewer
SELECT genre, rating FROM movies WHERE ai_filter('x', title) INTERSECT SELECT genre, rating FROM movies WHERE movie_id < 5

-- name: except of filtered rows
-- fewer
SELECT genre, rating FROM movies WHERE ai_filter('x', title) EXCEPT SELECT genre, rating FROM movies WHERE movie_id < 90

-- name: filter on keys, groups counted
-- fewer
SELECT director, count(*) FROM movies WHERE ai_filter('x', director) GROUP BY director HAVING count(*) > 1

-- name: keys that are answers about keys
-- fewer
SELECT director, g, count(*) FROM (SELECT director, ai_gen('x', director) AS g FROM movies) GROUP BY 1, 2 HAVING count(*) > 1

-- name: distinct with an answer, limited
-- fewer
-- ordered
SELECT DISTINCT genre, ai_gen('x', genre) AS g FROM movies ORDER BY genre LIMIT 2

-- name: filter on keys of grouped answers
SELECT name, avg(ai_score('x', note)) FROM people GROUP BY name HAVING ai_filter('y', name)

-- name: top k by a plain key of filtered rows
-- fewer
-- ordered
SELECT movie_id, ai_gen('why', title) FROM movies WHERE ai_filter('x', movie_info) ORDER BY release_year DESC, movie_id LIMIT 3

-- name: top k above a join of filtered rows
-- fewer
-- ordered
SELECT m.movie_id, review_id FROM (SELECT * FROM movies WHERE ai_filter('x', movie_info)) m
JOIN reviews r ON m.movie_id = r.movie_id ORDER BY review_date, review_id LIMIT 4

-- name: top k below a join
SELECT t.id, thing FROM (SELECT id FROM people WHERE ai_filter('y', name) ORDER BY id DESC LIMIT 2) t
JOIN likes ON t.id = person_id

-- name: equal names of two joins
WITH c AS (SELECT id, nullif(name, note) AS n, ai_score('p', note) AS s FROM people),
  d AS (SELECT a.n FROM c a FULL JOIN c b ON a.id = b.id WHERE coalesce(ai_gen('q', b.n), 'z') > a.n)
SELECT e.n FROM d LEFT JOIN c e ON d.n = e.n WHERE e.s IS NULL OR e.s > 3

-- name: a chain over three tables
-- fewer
SELECT m.title, t.subject FROM (SELECT * FROM movies WHERE ai_filter('x', title)) m
JOIN (SELECT * FROM reviews WHERE ai_filter('y', publisher)) r ON m.movie_id = r.movie_id
JOIN (SELECT * FROM tickets WHERE ai_filter('z', subject)) t ON t.ticket_id = r.review_id WHERE t.priority = 'high'

-- name: top k of a union of answers
-- fewer
-- ordered
SELECT movie_id AS k, ai_gen('x', title) FROM movies UNION ALL SELECT review_id, ai_gen('y', critic) FROM reviews
WHERE ai_filter('z', publisher) AND review_id < 50 ORDER BY k DESC, 2 LIMIT 4

-- name: distinct on a key, limited
-- ordered
SELECT DISTINCT ON (genre) genre, movie_id, ai_gen('x', title) AS g FROM movies ORDER BY genre, movie_id LIMIT 2

-- name: limit above a left join of answers
-- ordered
SELECT g, thing FROM (SELECT id, ai_gen('x', note) AS g FROM people) p LEFT JOIN likes l ON p.id = l.person_id
ORDER BY p.id, thing LIMIT 3

-- name: optional answers to a prompt without fields
SELECT p.id, l.g FROM people p LEFT JOIN (SELECT person_id, ai_gen('say hi') AS g FROM likes) l ON p.id = l.person_id

-- name: optional answers about a text for NULL
SELECT p.id, l.g FROM (SELECT person_id, ai_gen('x', t => coalesce(thing, 'none'), on_error => 'struct') AS g FROM likes) l
RIGHT JOIN people p ON p.id = l.person_id

-- name: rows without an optional answer
SELECT p.id FROM people p LEFT JOIN (SELECT person_id, ai_filter('x', t => coalesce(thing, 'none')) AS g FROM likes) l
ON p.id = l.person_id WHERE l.g IS NULL

-- name: optional answers of a call that every row makes
-- fewer
SELECT p.id, ai_gen('say hi') AS h, l.g FROM people p
LEFT JOIN (SELECT person_id, ai_gen('say hi') AS g FROM likes) l ON p.id = l.person_id
