-- name: filter alone
SELECT id, note FROM people WHERE ai_filter('x', note)

-- name: negated filter
SELECT id FROM people WHERE NOT ai_filter('x', note)

-- name: filter and plain
-- fewer
SELECT id FROM people WHERE ai_filter('x', note) AND score > 2 AND flag

-- name: filter or plain
-- fewer
SELECT id FROM people WHERE ai_filter('x', note) OR score > 2

-- name: filter or plain on samples
-- fewer
SELECT review_id FROM reviews WHERE (ai_filter('fresh', review_content) OR review_score > 2) AND top_critic

-- name: several filters
-- fewer
SELECT id FROM people WHERE ai_filter('x', note) AND ai_filter('y', name) AND ai_score('z', note, name) > 2

-- name: filters on samples
SELECT movie_id, ai_gen('why', movie_info) FROM movies
WHERE ai_filter('for children', movie_info) AND rating = 'PG' AND ai_filter('funny', title, movie_info)

-- name: mixture
SELECT id FROM people
WHERE (ai_filter('x', note) OR NOT (flag AND ai_filter('y', name))) AND (score < 3 OR ai_score('z', note) > 5)

-- name: same call selected and filtered
-- fewer
SELECT id, ai_score('x', note) AS s FROM people WHERE ai_score('x', note) > 3

-- name: same call filtered, selected and ordered
-- ordered
-- fewer
SELECT id, ai_score('x', note) AS s FROM people WHERE ai_score('x', note) > 3 ORDER BY ai_score('x', note) DESC, id

-- name: compare two calls
SELECT id FROM people WHERE ai_score('a', note) > ai_score('b', name)

-- name: compare with columns
SELECT id FROM people WHERE ai_score('a', note) > score AND ai_sentiment(note) <> coalesce(name, '')

-- name: filter is null
SELECT id FROM people WHERE ai_filter('x', note) IS NULL

-- name: filter is not true
SELECT id FROM people WHERE (ai_filter('x', note) AND flag) IS NOT TRUE

-- name: guard by IS NOT NULL
SELECT id, ai_gen('y', note, name) FROM people WHERE note IS NOT NULL AND ai_filter('x', note)

-- name: in a list
SELECT id FROM people WHERE ai_classify(note, ['a', 'b', 'c']) IN ('a', 'c') AND id NOT IN (1, 2)

-- name: in a list of calls
SELECT id FROM people WHERE name IN (ai_sentiment(note), 'Ann')

-- name: case in where
SELECT id FROM people WHERE CASE WHEN flag THEN ai_filter('x', note) ELSE score > 1 END

-- name: constant call in where
SELECT id FROM people WHERE ai_filter('Is it so', x => 'a') OR id = 1

-- name: false and a call
SELECT id FROM people WHERE 1 = 2 AND ai_filter('x', note)

-- name: true or a call
SELECT id FROM people WHERE 1 = 1 OR ai_filter('x', note)

-- name: filter above a projection of answers
-- fewer
SELECT * FROM (SELECT id, score, ai_gen('x', note) AS g FROM people) WHERE score > 2 AND length(g) > 3

-- name: filter above a limit stays above
SELECT count(*) FROM (SELECT id, ai_gen('x', note) AS g FROM people ORDER BY id LIMIT 5) WHERE id > 2 AND g IS NOT NULL

-- name: array and struct predicates
SELECT id FROM people WHERE 'b' = ANY(ai_classify(note, ['a', 'b'], multi => true))
   OR ai_extract(note, ['k']).k LIKE 'a%'
