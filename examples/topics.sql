-- A folder of Markdown files becomes a table of topics:
--     flightllm examples/notes < examples/topics.sql
-- Each file is a row with its name, its path and its text.

CREATE TABLE topics AS
SELECT name, ai_classify(text, ['cooking', 'travel', 'money']) AS topic
FROM notes;

SELECT topic, count(*) AS notes, string_agg(name, ', ' ORDER BY name) AS names
FROM topics
GROUP BY topic
ORDER BY notes DESC, topic;
