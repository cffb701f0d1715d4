"""Whole statements of Snowflake have the rows of its documentation."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.dialect.functions.snowflake_statements import EMPLOYEES, STATEMENTS
from tests.dialect.functions.tables import is_same

_READS = re.compile(r"(select|with|values|show)\b", re.IGNORECASE)
_FEW: Sequence[tuple[list[str], Any]] = [
    (["SELECT $1, v.$2 FROM VALUES (1, 'a'), (2, 'b') AS v ORDER BY $1 DESC"], [(2, "b"), (1, "a")]),
    (['SELECT t.$1 AS a FROM (VALUES (1)) AS t ("X")'], [(1,)]),
    (["SELECT FILTER([1, NULL, 3], x INT -> x > 1) AS a, TRANSFORM([1, 2], x -> x * 2) AS b"], [([3], [2, 4])]),
    (
        ['SELECT k, v FROM (SELECT 1 AS q1, 2 AS "q2") UNPIVOT (v FOR k IN (q1, "q2")) ORDER BY k'],
        [("Q1", 1), ("q2", 2)],
    ),
    (["SELECT ARRAY_CONSTRUCT(1, 'a', NULL) AS a, ARRAY_CONSTRUCT(1, 'a')[1]::STRING AS b"], [('[1,"a",null]', "a")]),
    (
        ["SELECT ARRAY_CONSTRUCT(id, name) AS a, ARRAY_CONSTRUCT(id, mgr) FROM emp WHERE id = 2"],
        [('[2,"Bob"]', [2, 1])],
    ),
    (["SELECT ARRAY_SIZE(ARRAY_CONSTRUCT(1, 'a')) AS a, TYPEOF(ARRAY_CONSTRUCT(1, 'a')) AS b"], [(2, "ARRAY")]),
    (["SELECT ARRAY_CONSTRUCT(ARRAY_CONSTRUCT(1), ARRAY_CONSTRUCT('a')) AS a"], [('[[1],["a"]]',)]),
    (
        ["SELECT f.value FROM TABLE(FLATTEN(INPUT => ARRAY_CONSTRUCT(OBJECT_CONSTRUCT('a', 1), 'b', NULL))) f"],
        [('{"a":1}',), ('"b"',), (None,)],
    ),
    (["SELECT ARRAY_CONSTRUCT(OBJECT_CONSTRUCT('a', 1))[0]:a::INT AS a"], [(1,)]),
    (
        ["SELECT OBJECT_CONSTRUCT('k', ARRAY_AGG(OBJECT_CONSTRUCT('a', id))) AS o FROM emp WHERE id < 3"],
        [('{"k":[{"a":1},{"a":2}]}',)],
    ),
    (
        [
            "CREATE OR REPLACE TABLE lists AS SELECT ARRAY_AGG(OBJECT_CONSTRUCT('a', id)) AS l FROM emp WHERE id < 3",
            "SELECT f.value:a::INT AS x FROM lists t, LATERAL FLATTEN(t.l) f ORDER BY x",
        ],
        [(1,), (2,)],
    ),
    (["SELECT ARRAY_AGG(v:a) AS l FROM (SELECT PARSE_JSON('{\"a\":[1]}') AS v)"], [("[[1]]",)]),
    (
        [
            """CREATE OR REPLACE TABLE lists AS SELECT '{"a":1,"value":null,"b":2}' AS j""",
            "SELECT f.value FROM (SELECT ARRAY_AGG(PARSE_JSON(j)) AS l FROM lists) t, LATERAL FLATTEN(t.l) f",
        ],
        [('{"a":1,"value":null,"b":2}',)],
    ),
    (["SELECT dept, COUNT(*) AS n FROM emp GROUP BY ALL ORDER BY ALL"], [("a", 2), ("b", 2), (None, 1)]),
    (["SELECT id FROM emp WHERE id < 3 ORDER BY ALL DESC"], [(2,), (1,)]),
    (["SELECT * FROM (SELECT id FROM emp WHERE id < 3) ORDER BY ALL DESC"], [(2,), (1,)]),
    (["SELECT * EXCLUDE (name, dept, sal, mgr) FROM emp WHERE id < 3 ORDER BY ALL DESC"], [(2,), (1,)]),
    (
        ["""SELECT f.value:a AS a FROM TABLE(FLATTEN(PARSE_JSON('[{"a":10},{"a":9}]'))) f ORDER BY a"""],
        [("9",), ("10",)],
    ),
    (["SELECT ARRAY_SORT(PARSE_JSON('[10, 9]')::ARRAY(NUMBER)) AS a"], [([9, 10],)]),
    (["SELECT LISTAGG(DISTINCT mgr, '|') WITHIN GROUP (ORDER BY mgr DESC) AS l FROM emp"], [("2|1",)]),
    (["SELECT LISTAGG(DISTINCT x, ',') OVER () AS l FROM (SELECT 'a' AS x UNION ALL SELECT 'a')"], [("a",), ("a",)]),
    (
        ["SELECT LISTAGG(DISTINCT x) OVER (PARTITION BY k) AS l FROM VALUES (1, 'a'), (1, 'a'), (2, NULL) t(k, x)"],
        [("a",), ("a",), ("",)],
    ),
    (["SELECT LISTAGG(DISTINCT mgr) AS a, LISTAGG(mgr) AS b FROM emp WHERE id = 1"], [("", "")]),
    (
        ["SELECT LISTAGG(x, ',') AS a, LISTAGG(DISTINCT x, ',') AS b FROM (SELECT '2024-01-02'::TIMESTAMP AS x)"],
        [("2024-01-02 00:00:00.000", "2024-01-02 00:00:00.000")],
    ),
    (
        ["SELECT CONCAT(x, '') AS a, OBJECT_CONSTRUCT('x', x) AS b FROM (SELECT '2024-01-02'::TIMESTAMP AS x)"],
        [("2024-01-02 00:00:00.000", '{"x":"2024-01-02 00:00:00.000"}')],
    ),
    (["SELECT LISTAGG(x, ',') AS a, LISTAGG(DISTINCT x, ',') AS b FROM (SELECT 20::FLOAT AS x)"], [("20", "20")]),
    (
        ["SELECT CONDITIONAL_TRUE_EVENT(sal > 100) OVER (ORDER BY id) AS n FROM emp ORDER BY id"],
        [(0,), (1,), (2,), (2,), (2,)],
    ),
    (["SELECT TO_VARCHAR(ARRAY_CONSTRUCT('a', 'b')) AS a, [1, 2]::VARCHAR AS b"], [('["a","b"]', "[1,2]")]),
    (
        [
            "CREATE OR REPLACE TABLE times AS SELECT '2024-01-02 03:04:05.6 +00:00'::TIMESTAMP_TZ AS t",
            "SELECT t::VARCHAR AS a, TO_VARCHAR(t) AS b, t || '' AS c, HOUR(t), OBJECT_CONSTRUCT('t', t) FROM times",
        ],
        [
            (
                *["2024-01-02 03:04:05.600 +0000"] * 3,
                3,
                '{"t":"2024-01-02 03:04:05.600 +0000"}',
            )
        ],
    ),
    (
        ["SELECT TYPEOF(TO_TIMESTAMP_TZ('2024-01-02')::VARIANT) AS a, TYPEOF(CURRENT_TIMESTAMP()::VARIANT) AS b"],
        [("TIMESTAMP_TZ", "TIMESTAMP_LTZ")],
    ),
    (
        ["SELECT FILTER(PARSE_JSON('[1, 2, 3]'), x -> x > 1) AS a, TRANSFORM(PARSE_JSON('[1, 2]'), x -> x * 2) AS b"],
        [("[2,3]", [2, 4])],
    ),
    (
        [
            """SELECT FILTER(v:b, x -> x:ok) AS a, TRANSFORM(v:b, x -> x:ok) AS b, TRANSFORM(v:b, x -> x:n::INT) AS c
            FROM (SELECT PARSE_JSON('{"b":[{"ok":true,"n":1},{"ok":false,"n":2}]}') AS v)"""
        ],
        [('[{"ok":true,"n":1}]', "[true,false]", [1, 2])],
    ),
    (["""SELECT ARRAY_SIZE(FILTER(PARSE_JSON('["a","b"]'), x -> x = 'a')) AS a"""], [(1,)]),
    (
        ["SELECT TO_NUMBER('$12.50', '$99.99') AS a, TO_NUMBER('-$1,234.5', '$9,999.99', 10, 2) AS b"],
        [(13, -1234.5)],
    ),
    (["SELECT TRY_TO_NUMBER('123', '99') AS a, TRY_TO_DECIMAL('1,2', '9,999') AS b"], [(None, None)]),
    (["SELECT TRY_CAST('2024-01-05' AS DATE) AS a, TRY_CAST('2024-02-30' AS DATE) AS b"], [(date(2024, 1, 5), None)]),
    (
        [
            (
                "SELECT TRY_TO_DATE(x) AS a FROM VALUES (1, '31-JAN-2024'), (2, '01/31/2024'), (3, '1706659200'),"
                " (4, '20240131'), (5, '2024-02-30'), (6, 'Jan 31, 2024'), (7, '2024-1-31 10:11'), (8, NULL)"
                " AS v(id, x) ORDER BY id"
            ),
        ],
        [(date(2024, 1, 31),)] * 3 + [(date(1970, 8, 23),), (None,), (None,), (date(2024, 1, 31),), (None,)],
    ),
    (
        [
            (
                "SELECT TO_VARCHAR(TRY_TO_TIMESTAMP(x)) AS a FROM VALUES"
                " (1, '01/31/2024 10:11:12'), (2, '1706659200123'),"
                " (3, 'Wed, 31 Jan 2024 10:11:12.5 +0200'), (4, 'Wed Jan 31 10:11:12 +0200 2024'), (5, '2024-01-31T10')"
                " AS v(id, x) ORDER BY id"
            ),
        ],
        [
            ("2024-01-31 10:11:12.000",),
            ("2024-01-31 00:00:00.123",),
            ("2024-01-31 10:11:12.500",),
            ("2024-01-31 10:11:12.000",),
            ("2024-01-31 10:00:00.000",),
        ],
    ),
    (
        ["SELECT TRY_TO_DATE(x, 'MON DD, YYYY') AS a FROM VALUES (1, 'Jan 31, 2024'), (2, '2024-01-31') AS v(id, x)"],
        [(date(2024, 1, 31),), (None,)],
    ),
    (
        [
            (
                "SELECT t::VARCHAR AS a, HOUR(t) AS b, t::DATE AS c, TO_VARCHAR(t::TIMESTAMP_NTZ) AS d,"
                " t = '2024-01-03 04:04:05'::TIMESTAMP_LTZ AS e FROM"
                " (SELECT '2024-01-02 23:04:05 -05:00'::TIMESTAMP_TZ AS t)"
            ),
        ],
        [("2024-01-02 23:04:05.000 -0500", 23, date(2024, 1, 2), "2024-01-02 23:04:05.000", True)],
    ),
    (
        [
            (
                "SELECT TO_VARCHAR(x::TIMESTAMP_NTZ) AS a, TO_VARCHAR(x::TIMESTAMP_LTZ) AS b"
                " FROM (SELECT '2024-01-02 23:04:05 -0500' AS x)"
            ),
        ],
        [("2024-01-02 23:04:05.000", "2024-01-03 04:04:05.000 +0000")],
    ),
    (
        [
            (
                "CREATE OR REPLACE TABLE zoned AS SELECT"
                " arrow_cast('2024-01-02 03:04:05', 'Timestamp(Microsecond, Some(\"America/New_York\"))') AS t"
            ),
            "SELECT t::TIMESTAMP_NTZ::VARCHAR AS a, TIME_SLICE(t, 4, 'HOUR')::TIMESTAMP_NTZ::VARCHAR AS b FROM zoned",
        ],
        [("2024-01-02 03:04:05.000", "2024-01-02 00:00:00.000")],
    ),
    (["CREATE OR REPLACE TRANSIENT TABLE short AS SELECT 1 AS a", "SELECT a FROM short"], [(1,)]),
    (["SHOW TABLES LIKE 'EM%' IN SCHEMA public"], [("flightllm", "public", "emp", "BASE TABLE")]),
    (["SHOW TABLES IN DATABASE flightllm LIKE 'emp'"], [("flightllm", "public", "emp", "BASE TABLE")]),
    (["SHOW VIEWS IN SCHEMA public"], []),
    (
        ["CREATE OR REPLACE TABLE two (a DATE)", "SHOW COLUMNS IN TABLE two"],
        [("flightllm", "public", "two", "a", "DATE", "YES")],
    ),
    (
        [
            "CREATE OR REPLACE TABLE clocks (a TIMESTAMP_NTZ, b TIMESTAMP_LTZ, c DATE)",
            (
                "INSERT INTO clocks (a, c, b) VALUES ('2024-01-02 16:00:00 -0500', '31-JAN-2024',"
                " '2024-01-02 16:00:00 -0500'::TIMESTAMP_LTZ)"
            ),
            "SELECT a::VARCHAR AS a, b::VARCHAR AS b, c FROM clocks",
        ],
        [("2024-01-02 16:00:00.000", "2024-01-02 21:00:00.000 +0000", date(2024, 1, 31))],
    ),
    (
        [
            "CREATE OR REPLACE TABLE a AS SELECT AI_SENTIMENT(name, ['food']) AS s FROM emp WHERE id = 1",
            "CREATE OR REPLACE TABLE parts AS SELECT TO_JSON(s:categories) AS j, ARRAY_SIZE(s:categories) AS n FROM a",
            "SELECT n, f.value:name::STRING AS v FROM parts, LATERAL FLATTEN(input => j) f WHERE f.index = 1",
        ],
        [(2, "food")],
    ),
    (["TRUNCATE TABLE IF EXISTS nothere", "TRUNCATE TABLE IF EXISTS emp", "SELECT COUNT(*) AS n FROM emp"], [(0,)]),
]
"""Texts whose rows changed with one rule each."""
_REFUSED = [
    ("SELECT COUNT(*) AS n FROM mydb.public.emp", "there is no catalog 'mydb', only 'flightllm': write public.emp"),
    ("INSERT INTO mydb.public.emp SELECT * FROM emp", "there is no catalog 'mydb', only 'flightllm': write SCHEMA"),
    ("USE SCHEMA mydb.public", "there is no catalog 'mydb', only 'flightllm': write USE public"),
    ("INSERT OVERWRITE INTO emp SELECT * FROM emp", "write DELETE FROM the table and then INSERT INTO"),
    ("CREATE TABLE c CLONE emp", "write CREATE TABLE c AS SELECT * FROM emp"),
    ("CREATE TABLE c LIKE emp", "write CREATE TABLE c AS SELECT * FROM emp LIMIT 0"),
    ("CALL p()", "write the procedure's statements one by one"),
    ("BEGIN LET x := 1; RETURN x; END", "write each statement on its own"),
    ("DECLARE x INT; BEGIN x := 1; END", "write each statement on its own"),
    ("CREATE STAGE s", "write CREATE EXTERNAL TABLE"),
    ("PUT file://a @s", "write CREATE EXTERNAL TABLE"),
    ("SELECT $1 FROM @s/a.csv", "write CREATE EXTERNAL TABLE"),
    ("SELECT * FROM TABLE(RESULT_SCAN(LAST_QUERY_ID()))", "write CREATE TEMP TABLE t AS SELECT"),
    ("SELECT TYPEOF(t::VARIANT) AS k FROM (SELECT CURRENT_TIMESTAMP() AS t)", "write TYPEOF(t::TIMESTAMP_TZ::VARIANT)"),
    ("SELECT LISTAGG(DISTINCT name) WITHIN GROUP (ORDER BY id) AS l FROM emp", "ORDER BY a)"),
    ("SELECT ARRAY_SORT(PARSE_JSON('[10, 9]')) AS a", "write ARRAY_SORT(PARSE_JSON(text)::ARRAY(NUMBER))"),
    ("SELECT ARRAY_MAX([20, PARSE_JSON('5')]) AS a", "write ARRAY_MAX(PARSE_JSON(text)::ARRAY(NUMBER))"),
    ("SELECT v:a > v:b AS a FROM (SELECT PARSE_JSON('{}') AS v)", "d:price::NUMBER > d:cost::NUMBER"),
    ("SELECT GREATEST(v:a, v:b) AS a FROM (SELECT PARSE_JSON('{}') AS v)", "GREATEST(d:price::NUMBER, 0)"),
    (
        "SELECT * FROM emp MATCH_RECOGNIZE (ORDER BY id MEASURES a.id AS x PATTERN (a+) DEFINE a AS TRUE)",
        "lag(a)",
    ),
    ("SELECT TO_NUMBER('123', '99') AS a", "write another format"),
    ("SELECT TO_NUMBER('ff', 'XX') AS a", "write TO_NUMBER(replace"),
    ("SELECT 'Jan 31, 2024'::DATE AS a", "write TO_DATE(text, 'DD.MM.YYYY')"),
    ("SELECT (name || '2024-01-02 03:04:05 -05:00')::TIMESTAMP_TZ AS a FROM (SELECT '' AS name)", "::TIMESTAMP_LTZ"),
    ("INSERT INTO clocks VALUES ('2024-01-02 16:00:00 -0500')", "'2024-01-02 16:00:00 -0500'::TIMESTAMP_LTZ"),
    ("SELECT AI_COMPLETE('default', name, zz => dept) AS a FROM emp", "write one of prompt, model_parameters"),
    ("SELECT TRY_TO_DATE('2024', 'XX') AS a", "'XX' in the format 'XX' is unknown: write one of YYYY"),
    ("SHOW TABLES IN DATABASE nope", "leave IN out"),
    ("SELECT CONDITIONAL_CHANGE_EVENT(id) OVER (ORDER BY id) AS c FROM emp", "write lag"),
    ("SELECT SNOWFLAKE.CORTEX.SPLIT_TEXT_RECURSIVE_CHARACTER(name, 'none', 5) FROM emp", "split it in a client"),
]
_WITHOUT_ROWS = frozenset(
    {
        "SELECT COUNT(*) AS n FROM emp SAMPLE (100)",
        "SELECT COUNT(*) AS n FROM emp SAMPLE (3 ROWS)",
        "SELECT COUNT(*) AS n FROM emp TABLESAMPLE BERNOULLI (0)",
        "USE DATABASE analytics",
        "ALTER SESSION SET WEEK_START = 7",
        "SELECT * RENAME (name AS nm) FROM (SELECT id, name FROM emp WHERE id = 1)",
        "SELECT * ILIKE '%am%' FROM emp WHERE id = 1",
        "INSERT OVERWRITE INTO emp SELECT 9, 'Zed', 'z', 1, 1",
        "SELECT CONDITIONAL_CHANGE_EVENT(dept) OVER (ORDER BY id) AS p FROM emp WHERE id < 5 ORDER BY id",
        "SELECT COUNT(*) AS n FROM mydb.public.emp",
        "SELECT CURRENT_DATABASE() IS NULL AS a, CURRENT_SCHEMA() AS b",
        "ALTER TABLE emp ADD COLUMN extra VARIANT",
        "CREATE TABLE clone_t CLONE emp",
        "CREATE OR REPLACE TABLE like_t LIKE emp",
    }
)
"""The first texts of statements that say what to write where Snowflake has rows."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open the table that the statements read and change."""
    database = small_database(tmp_path)
    session = database.session()
    for text in EMPLOYEES:
        session.update(text, settings={"dialect": "snowflake"})
    yield session
    database.close()


def _rows(session: Session, texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """Run texts, and return the rows of the last one."""
    rows: list[tuple[Any, ...]] = []
    for text in texts:
        if _READS.match(text):
            rows = [tuple(row.values()) for row in ask(session, text, dialect="snowflake").rows]
        else:
            session.update(text, settings={"dialect": "snowflake"})
    return rows


def _alike(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> bool:
    return len(found) == len(expected) and all(map(is_same, map(list, found), map(list, expected)))


def test_few_rows(session: Session) -> None:
    """These statements have the rows of Snowflake."""
    for texts, expected in _FEW:
        assert _alike(found := _rows(session, texts), expected), (texts, found)


def test_says_what_to_write(session: Session) -> None:
    """The error of a statement without a counterpart has the text to write."""
    session.update("CREATE TABLE clocks (a TIMESTAMP_TZ)", settings={"dialect": "snowflake"})
    for text, said in _REFUSED:
        with pytest.raises(FlightLLMError, match=re.escape(said)):
            _rows(session, [text])


def test_random_numbers(session: Session) -> None:
    """RANDOM() has 64 random bits, also the low ones, and UNIFORM has each number between its ends."""
    for text in ("MOD(ABS(RANDOM()), 10)", "UNIFORM(0, 9, RANDOM())"):
        listed = f"SELECT {text} AS n FROM TABLE(GENERATOR(ROWCOUNT => 1000))"
        assert _rows(session, [f"SELECT DISTINCT n FROM ({listed}) ORDER BY n"]) == [(n,) for n in range(10)], text
    least = (
        "MIN(RANDOM()) < -9e18 AND MAX(RANDOM()) > 9e18 AND MIN(UNIFORM(0::FLOAT, 1::FLOAT, RANDOM())) BETWEEN 0 AND 1"
    )
    assert _rows(session, [f"SELECT {least} AS wide FROM TABLE(GENERATOR(ROWCOUNT => 2000))"]) == [(True,)]


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "expected"), STATEMENTS)
def test_rows(session: Session, texts: list[str], expected: Any) -> None:
    """A statement has the rows of Snowflake; one of `_WITHOUT_ROWS`, and one that must fail, says what to write."""
    if expected != "!" and texts[0] not in _WITHOUT_ROWS:
        assert _alike(found := _rows(session, texts), expected), found
        return
    with pytest.raises(FlightLLMError, match=r"write|leave|fetch|join on"):
        _rows(session, texts)


def test_most_rows_are_compared() -> None:
    """Few statements are refused where Snowflake has rows, and each has its name in the list."""
    with_rows = [texts[0] for texts, expected in STATEMENTS if expected != "!"]
    assert set(with_rows) >= _WITHOUT_ROWS
    assert len(with_rows) - len(_WITHOUT_ROWS) >= 55
