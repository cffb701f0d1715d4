-- name: average score
-- fewer
SELECT note, avg(ai_score('x', note)) AS a, count(*) AS n FROM people GROUP BY note

-- name: average score on samples
SELECT review_type, avg(ai_score('Good?', review_content)), count(ai_filter('x', review_content)) FROM reviews GROUP BY review_type

-- name: group by a call
SELECT ai_sentiment(note) AS s, count(*), sum(score) FROM people GROUP BY ai_sentiment(note)

-- name: group by position
SELECT ai_sentiment(note), flag, count(*) FROM people GROUP BY 1, 2

-- name: group by alias
SELECT ai_classify(note, ['a', 'b']) AS label, max(score) FROM people GROUP BY label

-- name: group by two calls
SELECT ai_sentiment(note), ai_filter('x', name), count(*) FROM people GROUP BY ai_sentiment(note), ai_filter('x', name)

-- name: call over groups
SELECT name, ai_gen('Greet {name}', name), count(*) FROM people GROUP BY name

-- name: call over an aggregate
SELECT flag, ai_gen('Comment on {n}', n => count(*)), ai_gen('Best?', max(note)) FROM people GROUP BY flag

-- name: aggregate without groups
SELECT avg(ai_score('x', note)), count(*), count(DISTINCT ai_sentiment(note)) FROM people

-- name: aggregate of nothing
SELECT avg(ai_score('x', note)), count(*), max(ai_gen('y', note)) FROM nothing

-- name: having a plain condition
SELECT name, avg(ai_score('x', note)) FROM people GROUP BY name HAVING count(*) > 1

-- name: having a call over the key
-- fewer
SELECT name, count(*) FROM people GROUP BY name HAVING ai_filter('x', name) AND count(*) < 3

-- name: having an aggregate of a call
SELECT flag, count(*) FROM people GROUP BY flag HAVING avg(ai_score('x', note)) > 3

-- name: key condition above an aggregate of a call
SELECT * FROM (SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name) WHERE name > 'B' AND a > 1

-- name: condition on a group of one
SELECT * FROM (SELECT count(ai_gen('x', note)) AS n FROM people) WHERE 1 = 2

-- name: filtered aggregates
-- fewer
SELECT flag, count(*) FILTER (WHERE ai_filter('x', note)), avg(ai_score('y', note)) FILTER (WHERE score > 2) FROM people
GROUP BY flag

-- name: filter and argument are both calls
SELECT count(ai_gen('x', name)) FILTER (WHERE ai_filter('y', note)), sum(id) FILTER (WHERE ai_filter('y', note)) FROM people

-- name: distinct and ordered aggregates
SELECT count(DISTINCT ai_sentiment(note)), string_agg(ai_sentiment(note), ',' ORDER BY id), array_agg(DISTINCT flag)
FROM people WHERE note IS NOT NULL

-- name: string_agg by a call's order
SELECT string_agg(name, ',' ORDER BY ai_score('x', note) NULLS LAST, id) FROM people WHERE name IS NOT NULL

-- name: sum of case
SELECT sum(CASE WHEN ai_filter('x', note) THEN 1 ELSE 0 END), sum(CASE WHEN flag THEN ai_score('y', note) END) FROM people

-- name: grouping sets
SELECT flag, name, avg(ai_score('x', note)) FROM people GROUP BY GROUPING SETS ((flag), (name), ())

-- name: rollup over a call
SELECT ai_sentiment(note), flag, count(*) FROM people GROUP BY ROLLUP (ai_sentiment(note), flag)

-- name: cube with a condition on a key
SELECT * FROM (SELECT flag, name, max(ai_score('x', note)) AS m FROM people GROUP BY CUBE (flag, name)) WHERE name IS NULL

-- name: aggregate of an aggregate
SELECT max(a) FROM (SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name)

-- name: unused aggregate
SELECT name FROM (SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name)

-- name: distinct of answers counted
SELECT count(*) FROM (SELECT DISTINCT ai_gen('x', note) FROM people)

-- name: count of unused answers
SELECT count(*) FROM (SELECT id, ai_gen('x', note) FROM people)

-- name: ignore nulls in an aggregate
-- fallback: Substrait would lose IGNORE NULLS
SELECT array_agg(score ORDER BY id) IGNORE NULLS, count(ai_gen('x', note)) FROM people

-- name: a single grouping set
-- fallback: the plan reads a column that its input does not have
SELECT name, count(ai_gen('x', note)) FROM people GROUP BY GROUPING SETS ((name))

-- name: grouped by a condition on an answer used twice
SELECT person_id, max(thing), CASE WHEN ai_filter('q', thing) IS FALSE THEN ai_filter('p', x => person_id) ELSE true END AS c
FROM likes GROUP BY 1, 3
