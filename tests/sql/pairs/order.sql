-- name: order by a call
-- ordered
SELECT id, note FROM people ORDER BY ai_score('x', note) DESC NULLS LAST, id

-- name: order by a call with limit
-- ordered
SELECT id FROM people ORDER BY ai_score('x', note), id LIMIT 3

-- name: order by a call with limit and offset
-- ordered
SELECT review_id FROM reviews WHERE movie_id < 30 ORDER BY ai_score('x', review_content), review_id LIMIT 5 OFFSET 3

-- name: order by a selected call
-- ordered
SELECT id, ai_score('x', note) AS s FROM people ORDER BY s NULLS FIRST, id DESC

-- name: order by position
-- ordered
SELECT ai_sentiment(note), id FROM people ORDER BY 1, 2

-- name: order by a plain key
-- ordered
SELECT id, ai_gen('x', note) FROM people ORDER BY id DESC

-- name: order by a plain key with limit
-- ordered
-- fewer
SELECT review_id, ai_gen('x', review_content) FROM reviews ORDER BY review_date DESC, review_id LIMIT 5

-- name: order by a plain key with limit and offset
-- ordered
-- fewer
SELECT movie_id, upper(ai_gen('x', movie_info)), title FROM movies ORDER BY release_year, title, movie_id LIMIT 4 OFFSET 10

-- name: order by a plain key, filter by a call, limit
-- ordered
SELECT movie_id, ai_gen('x', movie_info) FROM movies WHERE ai_filter('y', movie_info) ORDER BY title, movie_id LIMIT 6

-- name: order in a subquery with limit
-- ordered
SELECT id, ai_gen('x', note) FROM (SELECT * FROM people ORDER BY score DESC, id LIMIT 4) ORDER BY id

-- name: order by a key computed above a call
-- ordered
SELECT id, ai_gen('x', note) AS g FROM people ORDER BY score * -1 NULLS LAST, id LIMIT 4

-- name: order by what mixes a call and a column
-- ordered
SELECT id FROM people ORDER BY score + coalesce(ai_score('x', note), 0), id LIMIT 4

-- name: order of a filtered order
-- ordered
SELECT id, g FROM (SELECT id, score, ai_gen('x', note) AS g FROM people) WHERE score > 1 ORDER BY id DESC

-- name: order of a union
-- ordered
SELECT id, ai_gen('x', note) AS g FROM people UNION ALL SELECT person_id, ai_gen('y', thing) FROM likes ORDER BY id, g

-- name: distinct ordered with limit
-- ordered
SELECT DISTINCT name, ai_gen('x', name) FROM people ORDER BY name LIMIT 3

-- name: row number in order
-- ordered
SELECT row_number() OVER (ORDER BY id) AS n, ai_gen('x', note) FROM people ORDER BY n LIMIT 4
