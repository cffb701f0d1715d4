"""SQL texts that are nearly right: statements of the users' documents and tests, cut, spliced, repeated and spoilt."""

# ruff: noqa: E501 - lists of what is sent

import random
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|=>|<=|>=|<>|::|.", re.DOTALL)
_FENCE = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_CODE = re.compile(
    r"`((?:SELECT|CREATE|DROP|SHOW|SET|GRANT|REVOKE|TRUNCATE|EXPLAIN|REFRESH|DELETE|UPDATE|INSERT)[^`]*)`"
)

STATEMENTS = """
GRANT SELECT ON people TO u|REVOKE SELECT, INSERT ON TABLE public.people FROM u|GRANT CREATE ON SCHEMA public TO r
GRANT USAGE ON MODEL small TO user|GRANT USAGE ON PROMPT family TO readonly|SHOW GRANTS|SHOW MODELS|SHOW PROMPTS
CREATE OR REPLACE ROW FILTER ON likes TO readonly AS person_id > 1|DROP ROW FILTER ON likes FROM readonly
CREATE OR REPLACE COLUMN MASK ON likes(thing) TO readonly AS upper(thing)|DROP COLUMN MASK ON likes(thing) FROM readonly
CREATE OR REPLACE MODEL small OPTIONS (engine 'fake', model 'x', max_in_flight 4, price_input 0.05)|DROP MODEL small
CREATE OR REPLACE PROMPT family AS 'Is {note} about a family?'|DROP PROMPT IF EXISTS family|SHOW flightllm.all
CREATE OR REPLACE VECTOR INDEX plots ON people(note) OPTIONS (type 'hnsw', metric 'l2')|REFRESH VECTOR INDEX plots
DROP VECTOR INDEX IF EXISTS plots|SHOW VECTOR INDEXES|SELECT * FROM vector_search('plots', 'tea', top_k => 2)
SELECT id, text_search('plots', note, top_k => 1) FROM people|SELECT * FROM system.queries LIMIT 3|SHOW TABLES
SELECT * FROM people p JOIN likes l ON ai_filter('same? {a} {b}', a => p.note, b => l.thing)|TRUNCATE TABLE system.cache
CREATE OR REPLACE TABLE made AS SELECT id, name FROM people|INSERT INTO made VALUES (1, 'x')|DELETE FROM made WHERE id = 1
UPDATE made SET name = 'y' WHERE id = 2|CREATE OR REPLACE VIEW seen AS SELECT id FROM people|DROP VIEW IF EXISTS seen
DROP TABLE IF EXISTS made|CREATE SCHEMA IF NOT EXISTS s|DROP SCHEMA IF EXISTS s|SET flightllm.optimizer = 'off'
SET datafusion.execution.batch_size = 1|RESET flightllm.optimizer|EXPLAIN (ANALYZE, FORMAT json) SELECT ai_gen('x', id) FROM people
EXPLAIN VERBOSE SELECT * FROM people|DESCRIBE people|SELECT * FROM information_schema.columns LIMIT 3|SELECT $1 + ?, $name
CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/proc/self/environ'|COPY people TO '/dev/null' STORED AS CSV
SELECT * FROM '/proc/self/environ'|SELECT * FROM read_csv('file:///proc/self/environ')|SELECT * FROM read_parquet('/dev/zero')
INSERT INTO e SELECT * FROM 'file:///dev/zero'|CREATE FUNCTION f(int) RETURNS int RETURN $1|PREPARE p AS SELECT 1|EXECUTE p
BEGIN|COMMIT|ANALYZE TABLE people|ALTER TABLE people ADD COLUMN x int|CREATE INDEX i ON people(id)|USE x|KILL 1
SELECT ARRAY[1, 2][1:2], {'a': 1}['a'], MAP {'k': 1}|SELECT * FROM unnest([1, 2, NULL])|SELECT id FROM people GROUP BY CUBE (id, name)
SELECT sum(score) OVER (PARTITION BY name ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM people QUALIFY true
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
SELECT CAST('2020-01-01' AS DATE) + INTERVAL '1' MONTH, '1'::decimal(38, 10), X'00ff', 1e308 * 10, -9223372036854775808
SELECT ai_extract(note, ['a', 'b']), ai_classify(note, ['x', 'y'], multi => true), ai_gen('x', note, response_format => '{}') FROM people
SELECT ai_agg(note, 'sum up') FROM people GROUP BY name|SELECT ai_similarity(note, name), ai_embed(note) FROM people LIMIT 1
SELECT regexp_replace(name, '(a+)+$', 'x'), to_timestamp('x'), date_trunc('x', day), repeat('x', 10) FROM people
SELECT * FROM people TABLESAMPLE BERNOULLI (10)|SELECT * EXCEPT (id) REPLACE (1 AS name) FROM people|VALUES (1, 'a'), (2, NULL)
SELECT * FROM people MATCH_RECOGNIZE (PATTERN (A))|SELECT * FROM people PIVOT (sum(id) FOR name IN ('Ann'))|FROM people SELECT id
""".replace("\n", "|")

NASTY = (
    "'", '"', "`", "$$", "--", "/*", "*/", "/*/*", ";", "\x00", "\ufeff", "\u202e", "\U0001f642", "é", "\u0000'", "\\", "?", "$0",
    "$99999999999", ":", "::", "=>", "@", "#", "(", ")", "[", "]", "{", "}", ",", ".", "..", "*", "NULL", "E'\\u0000'", "U&'\\ffff'",
    "99999999999999999999999999999999999999", "1e999", "-0.0", "0x", "''''", '""""', "b'1'", "N'x'", "~~*", "->>", "@>", "<=>", "||", "\t\r\n\v\f",
    "{review}", "{", "{{}}", "ai_filter(", "ai_gen('x', ", "vector_search('plots', ", "t.*", "p.*", "LATERAL", "TIES", "current_user",
    "system.settings", "information_schema.tables", "OVER ()", "FILTER (WHERE true)", "WITHIN GROUP (ORDER BY 1)", "DISTINCT ON (1)", "CAST(",
    "CASE WHEN", "INTERVAL '1", "arrow_cast(1, 'RunEndEncoded(\"run_ends\": Int32, \"values\": Int32)')", "model => small", "prompt => family",
)  # fmt: skip


@cache
def corpus() -> tuple[str, ...]:
    """Return the statements that are mutated."""
    pairs = [path.read_text() for path in sorted((_ROOT / "tests" / "sql" / "pairs").glob("*.sql"))]
    found = [part for text in pairs for part in re.split(r"^--.*\n", text, flags=re.MULTILINE)]
    pages = [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]
    written = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    found += [part for block in _FENCE.findall(written) for part in block.split(";")] + _CODE.findall(written)
    found += STATEMENTS.split("|")
    return tuple(dict.fromkeys(text.strip() for text in found if text.strip()))


def sql(chance: random.Random) -> str:
    """Return a text that may be a statement."""
    tokens = _tokens(chance.choice(corpus()))
    for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 2, 2, 3, 6))):
        tokens = _mutated(tokens, chance)
    return "".join(tokens)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _mutated(tokens: list[str], chance: random.Random) -> list[str]:  # noqa: C901, PLR0912 - a line for each way
    if not tokens:
        return [chance.choice(NASTY)]
    place = chance.randrange(len(tokens))
    end = min(len(tokens), place + chance.randrange(1, 12))
    before, part, after = tokens[:place], tokens[place:end], tokens[end:]
    other = _tokens(chance.choice(corpus()))
    start = chance.randrange(len(other))
    piece = other[start : start + chance.randrange(1, 15)]
    match chance.randrange(14):
        case 0:
            return before + after
        case 1:
            return before + part + part + after
        case 2:
            return [*before, chance.choice(NASTY), *part, *after]
        case 3:
            return [*before, chance.choice(NASTY), *part[1:], *after]
        case 4:
            return before + piece + after
        case 5:
            return before + piece + part + after
        case 6:
            return before + part
        case 7:
            depth = chance.choice((1, 5, 30, 60, 200))
            return [*before, "(" * depth, *part, ")" * chance.choice((depth, depth, depth - 1)), *after]
        case 8:
            return [*before, "(", *other, ")", *after]
        case 9:
            many = [*part, chance.choice((" ", ",", " AND ", "+", " UNION ALL "))]
            return before + many * chance.choice((3, 30, 300)) + after
        case 10:
            return (
                [*before, *part, chance.choice("xé'\"(0 "), *after]
                if chance.random() < 0.9
                else [*before, "x" * 200_000]
            )
        case 11:
            chance.shuffle(part)
            return before + part + after
        case 12:
            return [*before, chance.choice(("/* ", "-- ", "/**/", "/* /* */")), *part, *after]
        case _:
            spoilt = [chr(chance.choice((chance.randrange(1, 128), chance.randrange(0x80, 0xD7FF), 0)))]
            return before + spoilt + after
