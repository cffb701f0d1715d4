-- Pairs: run with the optimizer on and off, compared row by row.
-- `-- ordered`: the text orders its rows totally, so their order is compared too.
-- `-- fewer`: the optimizer must save calls here, not only make none more.
-- `-- fallback: TEXT`: no operator can take the call; EXPLAIN must give this reason.
-- `-- part of: SQL`: the text leaves open which rows it returns; both must be as many, and among the rows of this SQL.
-- `-- parameters: JSON`: the values of `?` and `$1`.
-- `-- known bug: TEXT`: fails today, and the test says so once it does not.
-- `-- off fails: TEXT` with `-- expect: JSON`: DataFusion cannot run the text by itself; these are the rows it must have.

-- name: projection
-- fewer
SELECT id, ai_gen('Describe {note}', note) AS answer, name FROM people

-- name: projection on samples
SELECT movie_id, ai_gen('Recommend it?', title, movie_info) FROM movies WHERE movie_id <= 60

-- name: instruction only
SELECT id, ai_gen('Tell a joke') FROM people

-- name: no table
SELECT ai_gen('Tell a joke'), ai_filter('Is {x} large', x => 7), 1 AS one

-- name: no table, empty
SELECT ai_gen('Tell a joke') WHERE 1 = 0

-- name: empty table
SELECT id, ai_gen('x', note), ai_score('x', note) FROM nothing WHERE ai_filter('y', name)

-- name: empty result
SELECT id, ai_gen('x', note) FROM people WHERE id > 100

-- name: several calls over the same and over other columns
SELECT id, ai_gen('a', note), ai_score('b', note), ai_filter('c', note, name), ai_gen('a', name) FROM people

-- name: the same call several times
-- fewer
SELECT ai_gen('a', note) AS x, ai_gen('a', note) AS y, upper(ai_gen('a', note)) AS z FROM people

-- name: calls inside expressions
SELECT id, length(ai_gen('a', note)) + 1, ai_score('b', note) * 2 - score, 'x' || ai_sentiment(name) FROM people

-- name: nested calls
SELECT id, ai_summarize(ai_translate(note, 'fr')), ai_gen('reply to {t}', t => ai_gen('ask', name)) FROM people

-- name: nested three deep with the inner also used alone
-- fewer
SELECT ai_gen('c', b => ai_gen('b', a => ai_gen('a', note))) AS c, ai_gen('a', note) AS a FROM people

-- name: qualified star
SELECT p.id, ai_gen('Describe the person', p.*) FROM people p WHERE p.id < 6

-- name: star
SELECT ai_gen('Describe', *) FROM people WHERE flag

-- name: star over a join
SELECT p.id, ai_filter('Do they go together', p.*, l.*) FROM people p JOIN likes l ON p.id = l.person_id

-- name: named arguments
SELECT id, ai_gen('Is {who} fond of {what}', who => name, what => note) FROM people

-- name: named expression
SELECT id, llm('Rate {it}', it => coalesce(note, 'nothing') || '!') FROM people

-- name: field in the prompt
SELECT id, ai_gen('Say hello to {name} who {note}', name, note) FROM people

-- name: braces
SELECT id, ai_gen('Answer as {{"a": 1}} about {note}', note) FROM people

-- name: options by name
SELECT id, ai_gen('x', note, max_tokens => 5, temperature => 0.5), ai_score('y', note, low => 1, high => 5) FROM people

-- name: aliases of functions
SELECT llm('x', note), ai_if('y', note), ai_complete('demo', 'x'), ai_query('demo', 'z') FROM people

-- name: classify
SELECT id, ai_classify(note, ['pets', 'drinks', 'weather']) AS label FROM people

-- name: classify into many
SELECT id, ai_classify(note, ['pets', 'drinks', 'weather'], multi => true) AS labels FROM people

-- name: extract fields
SELECT id, ai_extract(note, ['subject', 'object'])['subject'], ai_extract(note, ['subject', 'object']).object FROM people

-- name: extract by schema
SELECT id, ai_extract(note, '{"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
  "required": ["n", "s"], "additionalProperties": false}').n + 1 AS n FROM people

-- name: whole struct
SELECT id, ai_extract(note, ['a', 'b']) FROM people

-- name: response format
SELECT id, ai_gen('Facts about {note}', note, response_format => ['who', 'what']).who FROM people

-- name: text functions
SELECT ai_sentiment(note), ai_summarize(note, max_words => 9), ai_translate(note, 'German'), ai_fix_grammar(note),
  ai_mask(note, ['person', 'place']), ai_count_tokens(note) FROM people

-- name: token count alone and of an answer
SELECT id, ai_count_tokens(ai_gen('x', note)) FROM people WHERE ai_count_tokens(note) > 2

-- name: errors as structs
SELECT id, ai_gen('x', note, on_error => 'struct')['value'], ai_filter('y', note, on_error => 'struct') FROM people

-- name: failing calls as structs
SELECT id, ai_gen('fail on {note}', note, on_error => 'struct') AS r FROM people

-- name: failing calls as NULL
SELECT id, ai_gen('fail on {note}', note) AS r FROM people WHERE ai_filter('fail on {name}', name) IS NULL

-- name: arguments that are no text
SELECT id, ai_gen('x', id, score, flag, day), ai_gen('y', id + 1), ai_gen('z', score > 2), ai_gen('w', NULL) FROM people

-- name: dates and timestamps
SELECT ticket_id, ai_gen('When', opened_at), ai_gen('y', CAST(opened_at AS DATE)) FROM tickets WHERE ticket_id < 20

-- name: duplicate names
SELECT p.id, q.id, p.name, q.name, ai_gen('x', p.note, q.note) FROM people p JOIN people q ON p.score = q.score

-- name: quoted names
SELECT ai_gen('x', "Odd Name") AS "An ""Answer""" FROM (SELECT note AS "Odd Name" FROM people) AS "T"

-- name: limit without order
-- part of: SELECT id, ai_gen('x', note) FROM people
SELECT id, ai_gen('x', note) FROM people LIMIT 4

-- name: limit and offset without order
-- part of: SELECT review_id, ai_gen('x', review_content) FROM reviews
SELECT review_id, ai_gen('x', review_content) FROM reviews LIMIT 7 OFFSET 5

-- name: limit over a filter
-- part of: SELECT review_id FROM reviews WHERE ai_filter('x', review_content)
-- fewer
SELECT review_id FROM reviews WHERE ai_filter('x', review_content) LIMIT 10

-- name: limit nothing
SELECT id, ai_gen('x', note) FROM people LIMIT 0

-- name: limit inside
-- part of: SELECT id, ai_gen('x', note) FROM people
SELECT id, ai_gen('x', note) FROM (SELECT * FROM people LIMIT 6) LIMIT 3

-- name: distinct
SELECT DISTINCT ai_sentiment(note), flag FROM people

-- name: distinct on
-- ordered
SELECT DISTINCT ON (s) s, id FROM (SELECT id, ai_sentiment(note) AS s FROM people) ORDER BY s, id

-- name: distinct on a call
-- ordered
SELECT DISTINCT ON (ai_sentiment(note)) ai_sentiment(note) AS s, id FROM people ORDER BY ai_sentiment(note), id

-- name: case with a call in the condition
SELECT id, CASE WHEN ai_filter('x', note) THEN 'yes' WHEN score > 2 THEN 'high' ELSE 'no' END FROM people

-- name: case with calls in the branches
-- fewer
SELECT id, CASE WHEN score > 3 THEN ai_gen('high', note) WHEN flag THEN ai_gen('flag', note) ELSE name END FROM people

-- name: case with calls everywhere
SELECT id, CASE WHEN ai_filter('a', note) THEN ai_gen('b', note) WHEN ai_filter('c', name) THEN ai_gen('d', name)
  ELSE ai_gen('e', note, name) END FROM people

-- name: case over a call
SELECT id, CASE ai_sentiment(note) WHEN 'positive' THEN 1 WHEN 'negative' THEN -1 ELSE 0 END FROM people

-- name: case inside case
SELECT id, CASE WHEN flag THEN CASE WHEN ai_filter('a', note) THEN ai_gen('b', name) END ELSE ai_gen('b', name) END
FROM people

-- name: coalesce
-- fewer
SELECT id, coalesce(name, ai_gen('Name one who {note}', note), 'nobody') FROM people

-- name: coalesce of two calls
SELECT id, coalesce(ai_gen('fail on {note}', note), ai_gen('instead', name), 'none') FROM people

-- name: nullif
SELECT id, nullif(ai_sentiment(note), 'neutral'), nullif(name, ai_gen('x', note)), nvl(name, ai_gen('y', note)) FROM people

-- name: boolean results
SELECT id, flag AND ai_filter('x', note), flag OR ai_filter('x', note), NOT ai_filter('y', name) FROM people

-- name: is null, is true, between, in, like
SELECT id, ai_filter('x', note) IS NULL, ai_filter('x', note) IS NOT TRUE, ai_score('y', note) BETWEEN 2 AND 6,
  ai_sentiment(note) IN ('positive', 'mixed'), ai_gen('z', note) LIKE '%a%', ai_gen('z', note) IS DISTINCT FROM name
FROM people

-- name: cast
SELECT CAST(ai_score('x', note) AS BIGINT) AS i, ai_score('x', note)::VARCHAR AS s, TRY_CAST(ai_gen('y', name) AS INT) FROM people

-- name: values
SELECT column1, ai_gen('x', column2) FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'a'))

-- name: values with a call
-- fallback: is in a scan
VALUES (ai_gen('x', a => 'one'), 1), (ai_gen('x', a => 'two'), 2)

-- name: arrays and structs of answers
SELECT [ai_gen('x', note), name] AS both, struct(id, ai_score('y', note)) AS pair FROM people

-- name: parameters
-- parameters: ["likes tea", 3]
SELECT id, ai_gen('Compare {note} with {other}', note, other => $1) FROM people WHERE id > $2 OR note = $1

-- name: question marks
-- parameters: ["dogs", 2.5]
SELECT id FROM people WHERE ai_filter('Is {note} about {what}', note, what => ?) OR score > ?

-- name: untyped NULL and other literals
SELECT id, NULL AS nothing, DATE '2024-01-01' AS day, 1.5::decimal(5, 2) AS d, INTERVAL '1 month' AS i, ai_gen('x', note) FROM people

-- name: case over NULL and over a NULL column
SELECT id, CASE NULL::boolean WHEN ai_filter('x', note) THEN 1 ELSE 2 END, CASE flag WHEN ai_filter('x', note) THEN 1 END FROM people

-- name: argument that fails outside its guard
SELECT id, CASE WHEN score <> 0 THEN ai_gen('x', 10 / score) END FROM people

-- name: cast that fails outside its guard
SELECT id, CASE WHEN name = 'nobody' THEN ai_gen('x', CAST(name AS INT)) ELSE 'none' END FROM people

-- name: division that fails outside its guard
SELECT id, coalesce(name, ai_gen('x', 10 / (id - 1))) FROM people
