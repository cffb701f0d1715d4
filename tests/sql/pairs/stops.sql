-- name: empty input of except all
SELECT id FROM nothing EXCEPT ALL SELECT id FROM people WHERE ai_filter('p', note)

-- name: intersect with a filter nothing passes
-- fewer
SELECT id FROM people WHERE ai_filter('p', note) INTERSECT SELECT id FROM people WHERE name = 'nobody'

-- name: scalar subquery beside no rows
-- fewer
SELECT id FROM people WHERE id > 50 AND score > (SELECT avg(ai_score('p', note)) FROM people)

-- name: right join on an answer without rows
-- fewer
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p
RIGHT JOIN (SELECT * FROM people WHERE name = 'nobody') n ON p.g = n.name

-- name: full join keeps the side that has rows
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p FULL JOIN nothing n ON p.g = n.name

-- name: left join on an answer keeps its left side
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p LEFT JOIN nothing n ON p.g = n.name

-- name: anti join on an answer keeps its left side
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p LEFT ANTI JOIN nothing n ON p.g = n.name

-- name: not in no rows
SELECT id FROM people WHERE ai_gen('x', note) NOT IN (SELECT name FROM nothing)

-- name: join whose other side has NULL keys only
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p JOIN (SELECT * FROM people WHERE name IS NULL) n ON p.g = n.name

-- name: union without rows in the first input
SELECT * FROM (SELECT id, count(*) AS n, 's' AS ty FROM people WHERE ai_filter('p', a => note) GROUP BY id
UNION ALL SELECT id, count(*), 'w' FROM people GROUP BY id) y WHERE ty = 'w'

-- name: union without rows in the first input, by a function
SELECT * FROM (SELECT id, count(*) AS n, concat('s', 'a') AS ty FROM people WHERE ai_filter('p', a => note) GROUP BY id, name
UNION ALL SELECT id, count(*), 'w' FROM people GROUP BY id) y WHERE ty || 'x' = 'wx'

-- name: union of three, the first two without rows
SELECT * FROM (SELECT id, 's' AS ty FROM people WHERE ai_filter('p', note)
UNION ALL SELECT person_id, 't' FROM likes WHERE ai_filter('q', thing) UNION ALL SELECT id, 'w' FROM people) y WHERE ty = 'w'

-- name: struct's part of a call without rows
SELECT id, ai_gen('x', note, on_error => 'struct')['value'] FROM people WHERE 'a' = 'b'

-- name: outer join with a predicate on its optional side
SELECT p.id, g FROM (SELECT DISTINCT note, ai_gen('x', note) AS g FROM people) c LEFT JOIN people p ON c.note = p.note
WHERE p.name >= 'zzz'

-- name: outer join with a call in a predicate on its optional side
SELECT c.note, p.id FROM people c LEFT JOIN (SELECT * FROM people WHERE id < 3) p ON c.note = p.note
WHERE p.name <> ai_sentiment(c.note) OR p.id IS NOT NULL

-- name: outer join with a predicate that NULL passes
SELECT c.note, p.id FROM people c LEFT JOIN (SELECT * FROM people WHERE id < 3) p ON c.note = p.note
WHERE p.name <> 'Ann' OR p.id IS NULL OR ai_filter('x', c.note)

-- name: full join with a predicate on both sides
SELECT p.id, l.thing FROM people p FULL JOIN likes l ON p.id = l.person_id WHERE p.id > 2 AND l.weight > 1 AND ai_filter('x', note)

-- name: distinct of a filter
-- fewer
SELECT DISTINCT review_type FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200

-- name: distinct with NULL keys
SELECT DISTINCT name, flag FROM people WHERE ai_filter('x', note)

-- name: distinct of nothing
SELECT DISTINCT name FROM nothing WHERE ai_filter('x', note)

-- name: group by without aggregates
-- fewer
SELECT movie_id FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200 GROUP BY movie_id

-- name: distinct on
-- ordered
-- fewer
SELECT DISTINCT ON (movie_id) movie_id, review_id FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200
ORDER BY movie_id, review_date DESC, review_id

-- name: largest of a filter
-- fewer
SELECT max(review_score) FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200

-- name: smallest of a filter by group, NULL among them
SELECT flag, min(score) FROM people WHERE ai_filter('x', note) GROUP BY flag

-- name: smallest and largest together
SELECT flag, min(score), max(score) FROM people WHERE ai_filter('x', note) GROUP BY flag

-- name: largest of NULL alone
SELECT max(score) FROM people WHERE ai_filter('x', coalesce(note, 'none')) AND score IS NULL

-- name: largest of no rows
SELECT max(score), max(score) IS NULL FROM nothing WHERE ai_filter('x', note)

-- name: largest of a computed value
-- fewer
SELECT max(review_score * 2 - 1) FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200

-- name: first value
SELECT flag, first_value(id ORDER BY score DESC, id) FROM people WHERE ai_filter('x', note) GROUP BY flag

-- name: largest with a filter of its own
SELECT max(score) FILTER (WHERE id > 2) FROM people WHERE ai_filter('x', note)

-- name: row number of one
-- fewer
SELECT * FROM (SELECT movie_id, review_id, row_number() OVER (PARTITION BY movie_id ORDER BY review_date, review_id) AS rn
FROM reviews WHERE ai_filter('x', review_content) AND review_id < 300) WHERE rn = 1

-- name: row number of two, NULL partition
SELECT id, rn FROM (SELECT id, row_number() OVER (PARTITION BY name ORDER BY score DESC, id) AS rn FROM people
WHERE ai_filter('x', coalesce(note, 'none'))) WHERE rn < 3

-- name: qualify
SELECT id, name FROM people WHERE ai_filter('x', note) QUALIFY row_number() OVER (PARTITION BY flag ORDER BY id DESC) <= 2

-- name: row number beside another window
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY flag ORDER BY id) AS rn, count(*) OVER (PARTITION BY flag) AS n
FROM people WHERE ai_filter('x', note)) WHERE rn = 1

-- name: rank keeps ties
SELECT * FROM (SELECT id, rank() OVER (PARTITION BY flag ORDER BY score) AS r FROM people WHERE ai_filter('x', note)) WHERE r = 1

-- name: exists stops at the first match
-- fewer
SELECT movie_id FROM movies m WHERE EXISTS
(SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content) AND review_id < 300)

-- name: not exists stops at the first match
-- fewer
SELECT movie_id FROM movies m WHERE movie_id < 30 AND NOT EXISTS
(SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content))

-- name: exists with a further condition
SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM likes l WHERE l.person_id = p.id AND l.weight < p.id AND ai_filter('x', thing))

-- name: not in with NULL
SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE ai_filter('x', coalesce(thing, 'none')))

-- name: not in without NULL
SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE ai_filter('x', thing) AND person_id IS NOT NULL)

-- name: exists of anything
SELECT id FROM people WHERE EXISTS (SELECT 1 FROM likes WHERE ai_filter('x', thing))

-- name: exists with a limit
-- fewer
-- part of: SELECT movie_id FROM movies m WHERE EXISTS (SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content))
SELECT movie_id FROM movies m WHERE EXISTS
(SELECT 1 FROM reviews r WHERE r.movie_id = m.movie_id AND ai_filter('x', review_content)) LIMIT 5

-- name: in with a limit and duplicates on the kept side
-- part of: SELECT thing FROM likes WHERE person_id IN (SELECT id FROM people WHERE ai_filter('x', note))
SELECT thing FROM likes WHERE person_id IN (SELECT id FROM people WHERE ai_filter('x', note)) LIMIT 3

-- name: having before an average of answers
-- fewer
SELECT genre, avg(ai_score('x', title)) FROM movies GROUP BY genre HAVING count(*) > 1000

-- name: having that some groups pass, NULL among the keys
-- fewer
SELECT name, avg(ai_score('x', coalesce(note, 'none'))) FROM people GROUP BY name HAVING count(*) > 1 AND max(id) > 2

-- name: having a number of what passed
SELECT flag, count(*) FROM people WHERE ai_filter('x', note) GROUP BY flag HAVING count(*) > 1

-- name: having a number that is not shown
-- fewer
SELECT movie_id FROM reviews WHERE ai_filter('x', review_content) AND review_id < 300 GROUP BY movie_id HAVING count(*) > 2

-- name: having a least number that is too large
SELECT flag FROM people WHERE ai_filter('x', note) GROUP BY flag HAVING count(*) >= 9

-- name: having a most number
SELECT flag FROM people WHERE ai_filter('x', note) GROUP BY flag HAVING count(*) < 3

-- name: having without groups
-- fewer
SELECT avg(ai_score('x', note)) FROM people HAVING count(*) > 1000

-- name: having a key that is an answer
SELECT ai_sentiment(note) AS s, ai_score('x', note) AS n FROM people GROUP BY 1, 2 HAVING ai_sentiment(note) = 'positive'

-- name: limited union
-- fewer
-- part of: SELECT id FROM people WHERE ai_filter('x', note) UNION ALL SELECT review_id FROM reviews WHERE ai_filter('x', review_content)
SELECT id FROM people WHERE ai_filter('x', note) UNION ALL SELECT review_id FROM reviews WHERE ai_filter('x', review_content) LIMIT 4

-- name: limited union with a free input
-- part of: SELECT id FROM people WHERE ai_filter('x', note) UNION ALL SELECT person_id FROM likes
SELECT id FROM people WHERE ai_filter('x', note) UNION ALL SELECT person_id FROM likes LIMIT 5

-- name: limited union of no rows
SELECT id FROM nothing WHERE ai_filter('x', note) UNION ALL SELECT id FROM nothing WHERE ai_filter('y', name) LIMIT 3

-- name: join with a union of answers
-- fewer
SELECT u.id, l.thing FROM (SELECT id FROM people WHERE ai_filter('x', note)
UNION ALL SELECT review_id FROM reviews WHERE ai_filter('x', review_content) AND review_id < 200) u
JOIN likes l ON u.id = l.person_id

-- name: answers in descending order
-- ordered
SELECT id FROM people ORDER BY ai_score('x', note) DESC, id LIMIT 3

-- name: predicate beside a call that leaves no row to intersect with
SELECT id FROM people WHERE ai_filter('p', note) IS NOT NULL AND id <> id
INTERSECT SELECT person_id FROM likes WHERE ai_filter('q', thing)

-- name: the side with fewer calls turns out to be empty
-- fewer
SELECT id FROM people WHERE ai_filter('p', note) IS NOT NULL
INTERSECT SELECT person_id FROM likes WHERE weight = 1 AND ai_filter('q', thing) IS NULL

-- name: predicate on both sides of a join that its key denies
-- fewer
SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p JOIN likes l ON p.id = l.person_id
WHERE p.id > l.person_id
