-- name: window over answers
SELECT id, avg(ai_score('x', note)) OVER (PARTITION BY flag) FROM people

-- name: rank by answers
SELECT id, rank() OVER (ORDER BY ai_score('x', note) DESC) FROM people

-- name: partition by answers
SELECT id, ai_sentiment(note) AS s, row_number() OVER (PARTITION BY ai_sentiment(note) ORDER BY id) AS n FROM people

-- name: window beside a call
SELECT id, lag(id) OVER (ORDER BY id), ai_gen('x', note) FROM people

-- name: call over a window
SELECT id, ai_gen('x', n => count(*) OVER (PARTITION BY note)) FROM people

-- name: filter above a window
SELECT * FROM (SELECT id, ai_sentiment(note) AS s, row_number() OVER (ORDER BY id) AS n FROM people) WHERE id > 3

-- name: filter above a window over answers
SELECT * FROM (SELECT id, score, row_number() OVER (ORDER BY ai_score('x', note), id) AS n FROM people) WHERE score > 2

-- name: limit above a window
-- ordered
SELECT id, sum(ai_score('x', note)) OVER (ORDER BY id) AS s FROM people ORDER BY id LIMIT 3

-- name: qualify
SELECT id, name FROM people QUALIFY row_number() OVER (PARTITION BY name ORDER BY ai_score('x', note), id) = 1

-- name: qualify and a filter
SELECT id FROM people WHERE ai_filter('x', note) QUALIFY count(*) OVER (PARTITION BY name) > 1

-- name: first value and frames
SELECT id, first_value(ai_gen('x', note)) OVER (PARTITION BY flag ORDER BY id),
  sum(ai_score('y', note)) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM people

-- name: top per group
SELECT * FROM (SELECT movie_id, genre, rank() OVER (PARTITION BY genre ORDER BY ai_score('fun', movie_info) DESC, movie_id) AS r
FROM movies) WHERE r <= 2

-- name: filter of a window function
-- fallback: Substrait would lose FILTER
SELECT id, sum(score) FILTER (WHERE score > 2) OVER (), ai_gen('x', note) FROM people

-- name: filter by an answer of a window function
-- fallback: Substrait would lose FILTER
SELECT id, sum(id) FILTER (WHERE ai_filter('x', note)) OVER (ORDER BY id) FROM people

-- name: range frame with an offset
-- fallback: Substrait would lose RANGE BETWEEN
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING), ai_gen('x', note) FROM people

-- name: rows frame with an offset
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), ai_gen('x', note) FROM people

-- name: range frame to the current row
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), ai_gen('x', note) FROM people

-- name: ignore nulls in a window
-- fallback: Substrait would lose IGNORE NULLS
SELECT id, last_value(score) IGNORE NULLS OVER (ORDER BY id), ai_gen('x', note) FROM people
