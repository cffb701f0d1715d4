"""Texts of other dialects give the rows that the same question gives in ours, and errors speak of the text as sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import FlightLLMError, PermissionDeniedError, SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables, and one with a time and a JSON text."""
    database = small_database(tmp_path_factory.mktemp("transpiling"))
    session = database.session()
    session.update("""CREATE TABLE one AS SELECT TIMESTAMP '2024-03-05 16:07:08' AS t, '{"a": {"b": [1, 2]}}' AS j""")
    yield session
    database.close()


PAIRS = [
    (
        "bigquery",
        "SELECT JSON_VALUE(j, '$.a.b[1]') AS x, JSON_VALUE(j, '$.a') AS y FROM one",
        "SELECT '2' AS x, NULL AS y",
    ),
    ("bigquery", "SELECT JSON_EXTRACT_SCALAR(PARSE_JSON(j), '$.a.b[0]') AS x FROM one", "SELECT '1' AS x"),
    (
        "snowflake",
        "SELECT PARSE_JSON(j):a.b[0]::string AS x, GET_PATH(PARSE_JSON(j), 'a.b[1]')::int AS y FROM one",
        "SELECT '1' AS x, 2 AS y",
    ),
    (
        "duckdb",
        "SELECT j ->> '$.a.b[1]' AS x, json_extract_string(j, '$.a') AS y FROM one",
        """SELECT '2' AS x, '{"b":[1,2]}' AS y""",
    ),
    (
        "snowflake",
        "SELECT AI_CLASSIFY(note, ['a', 'b']):labels[0]::string AS x, IFF(flag, 1, 2) AS y FROM people ORDER BY id",
        "SELECT ai_classify(note, ['a', 'b']) AS x, CASE WHEN flag THEN 1 ELSE 2 END AS y FROM people ORDER BY id",
    ),
    (
        "snowflake",
        "SELECT AI_CLASSIFY(note, ['a', 'b'], {'output_mode': 'multi'}):labels[0] AS x FROM people ORDER BY id",
        "SELECT ai_classify(note, ['a', 'b'], multi => true)[1] AS x FROM people ORDER BY id",
    ),
    (
        "snowflake",
        "SELECT id FROM people WHERE AI_FILTER(PROMPT('Is it? {0}', note)) ORDER BY score DESC, id",
        "SELECT id FROM people WHERE ai_filter('Is it? {note}', note) ORDER BY score DESC NULLS FIRST, id",
    ),
    (
        "snowflake",
        "SELECT LISTAGG(name) WITHIN GROUP (ORDER BY id) AS x, COUNT_IF(flag) AS n FROM people",
        "SELECT string_agg(name, '' ORDER BY id) AS x, count(*) FILTER (WHERE flag) AS n FROM people",
    ),
    ("snowflake", "SELECT LISTAGG(name, '-') AS x FROM people WHERE id > 20", "SELECT '' AS x"),
    (
        "snowflake",
        "SELECT j:a.b[1]::int AS x, TO_CHAR(t, 'YYYY-MM') AS m, DATEADD(day, 1, t) AS d FROM one",
        "SELECT 2 AS x, '2024-03' AS m, TIMESTAMP '2024-03-06 16:07:08' AS d",
    ),
    ("snowflake", "SELECT id / 2 AS x FROM people ORDER BY id", "SELECT id / 2.0::double AS x FROM people ORDER BY id"),
    (
        "bigquery",
        'SELECT AI.GENERATE(("Sum\\\'s up: ", note)).result AS x FROM `people` ORDER BY id',
        "SELECT ai_gen('Sum''s up: ' || note) AS x FROM people ORDER BY id",
    ),
    (
        "bigquery",
        'SELECT id, COUNTIF(score > 1) OVER () AS n FROM people WHERE AI.IF(("Is it? ", note)) ORDER BY score DESC, id',
        (
            "SELECT id, count(*) FILTER (WHERE score > 1) OVER () AS n FROM people WHERE ai_if('Is it? ' || note)"
            " ORDER BY score DESC NULLS LAST, id"
        ),
    ),
    (
        "bigquery",
        """SELECT AI.CLASSIFY(note, ["it's", 'b\\n'], output_mode => "multi") AS x FROM people ORDER BY id""",
        "SELECT ai_classify(note, ['it''s', E'b\\n'], multi => true) AS x FROM people ORDER BY id",
    ),
    (
        "bigquery",
        "SELECT '\ufdd25\ufdd2' AS a, \"\ufdd20\ufdd2\" AS b, 'd\\\\e' AS d",
        "SELECT '\ufdd25\ufdd2' AS a, '\ufdd20\ufdd2' AS b, 'd\\e' AS d",
    ),
    ("duckdb", "SELECT '\ufdd25\ufdd2' AS a, 'it''s\\n' AS b", "SELECT '\ufdd25\ufdd2' AS a, 'it''s\\n' AS b"),
    ("bigquery", "SELECT [10, 20][OFFSET(0)] AS x, SAFE_CAST('a' AS INT64) AS y", "SELECT 10 AS x, NULL::bigint AS y"),
    (
        "databricks",
        "SELECT ai_query('default', concat(\"Sum \", note)) AS x FROM people ORDER BY id",
        "SELECT ai_gen('Sum ' || note) AS x FROM people ORDER BY id",
    ),
    (
        "databricks",
        (
            "SELECT regexp_extract(note, '(\\\\w+) (\\\\w+)') AS x, date_format(t, 'yyyy-MM') AS m FROM people, one"
            " ORDER BY id"
        ),
        "SELECT regexp_extract(note, '(\\w+) (\\w+)', 1) AS x, '2024-03' AS m FROM people ORDER BY id",
    ),
    ("spark", "SELECT get_json_object(j, '$.a.b[0]') AS x FROM one", "SELECT '1' AS x"),
    (
        "spark",
        "SELECT collect_list(name) AS x FROM people",
        "SELECT array_agg(name) FILTER (WHERE name IS NOT NULL) AS x FROM people",
    ),
    ("duckdb", "FROM people SELECT id WHERE flag ORDER BY id", "SELECT id FROM people WHERE flag ORDER BY id"),
    (
        "duckdb",
        "SELECT regexp_extract(note, '(\\w+) (\\w+)') AS x FROM people ORDER BY score DESC, id",
        "SELECT regexp_extract(note, '(\\w+) (\\w+)', 0) AS x FROM people ORDER BY score DESC NULLS LAST, id",
    ),
    (
        "bigquery",
        "SELECT CAST(2.7 AS INT64) AS x, CAST(-2.7 AS INT64) AS y, CAST('2' AS INT64) AS z",
        "SELECT 3 x, -3 y, 2 z",
    ),
    ("bigquery", "SELECT EXTRACT(ISOWEEK FROM t) AS x FROM one", "SELECT date_part('week', t)::int AS x FROM one"),
    *(
        (
            dialect,
            (
                "SELECT 2.7::int AS x, flag::int AS f, (score * 1.5)::int AS s, (a.id + 9007199254740992)::bigint AS b,"
                " avg(score) OVER ()::int AS v FROM people AS a ORDER BY id"
            ),
            (
                "SELECT 3::int AS x, flag::int AS f, round(score * 1.5)::int AS s, id + 9007199254740992 AS b,"
                f" {rounded}::int AS v FROM people ORDER BY id"
            ),
        )
        for dialect, rounded in (
            ("postgres", "round(avg(score) OVER ())"),
            ("snowflake", "round(avg(score) OVER (), 0)"),
            ("duckdb", "(2 * round(avg(score) OVER () / 2))"),  # 2.5 becomes 2, the even one
        )
    ),
    (
        "snowflake",
        "SELECT TRY_CAST('a' AS INT) AS x, ai_filter('?', note)::int AS y FROM people ORDER BY id",
        "SELECT NULL::int AS x, ai_filter('?', note)::int AS y FROM people ORDER BY id",
    ),
    ("postgres", "SELECT j->'a'->>'b' AS x FROM one", "SELECT '[1, 2]' AS x"),
    (
        "postgres",
        "SELECT id, 7 / 2 AS x FROM people ORDER BY score DESC, id",
        "SELECT id, 3 AS x FROM people ORDER BY score DESC NULLS FIRST, id",
    ),
    (
        "bigquery",
        "SELECT EXTRACT(MILLISECOND FROM t + INTERVAL 7 MILLISECOND) AS x, ARRAY_LENGTH([1, 2]) - 3 AS y FROM one",
        "SELECT 7 AS x, -1 AS y",
    ),
    (
        "duckdb",
        "SELECT length([7, NULL]) AS x, -length(name) AS y FROM people",
        "SELECT 2 AS x, -char_length(name) AS y FROM people",
    ),
    (
        "duckdb",
        "SELECT length(l) - array_length(l) AS x FROM (SELECT [name] AS l FROM people LIMIT 1)",
        "SELECT 0 AS x",
    ),
    ("duckdb", "SELECT extract(dayofyear FROM t) AS x FROM one", "SELECT CAST(65 AS INT) AS x"),
    ("bigquery", "SELECT CAST(t AS STRING FORMAT 'YYYY/MM HH24:MI') AS x FROM one", "SELECT '2024/03 16:07' AS x"),
    ("databricks", "SELECT -SIZE(ARRAY(1, 2)) AS x", "SELECT -2 AS x"),
    ("snowflake", "SELECT -ARRAY_SIZE([1, 2]) AS x", "SELECT -2 AS x"),
    (
        "postgres",
        "SELECT (ARRAY['a', 'b'])[CASE WHEN 1 < 0 THEN CARDINALITY(ARRAY[1]) ELSE 1 + 1 END] AS x, DATE(t) d FROM one",
        "SELECT 'b' AS x, DATE '2024-03-05' AS d",
    ),
    (
        "duckdb",
        "SELECT id FROM people SEMI JOIN likes ON id = person_id ORDER BY id",
        "SELECT id FROM people WHERE id IN (SELECT person_id FROM likes) ORDER BY id",
    ),
    (
        "databricks",
        "SELECT id FROM people ANTI JOIN likes ON id = person_id ORDER BY id",
        "SELECT id FROM people WHERE NOT EXISTS (SELECT 1 FROM likes WHERE person_id = id) ORDER BY id",
    ),
]


@pytest.mark.parametrize(("dialect", "sql", "ours"), PAIRS)
def test_same_rows(session: Session, dialect: str, sql: str, ours: str) -> None:
    """A text in its dialect has the rows, in their order, that ours has."""
    found = ask(session, sql, dialect=dialect).table
    expected = ask(session, ours).table
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("duckdb", "SELECT id FROM people ASOF LEFT JOIN likes ON id >= person_id"),
        ("snowflake", "SELECT id FROM people ASOF JOIN likes MATCH_CONDITION (id >= person_id)"),
    ],
)
def test_joins_to_the_last_row_before(session: Session, dialect: str, sql: str) -> None:
    """ASOF JOIN is refused with the place and with what to write."""
    with pytest.raises(UnsupportedError, match=r"ASOF JOIN at 1:23 is not supported: join on b\.at = \(SELECT max"):
        ask(session, sql, dialect=dialect)


@pytest.mark.parametrize("written", ["DAY", "999", "MON DD"])
def test_formats_of_casts(session: Session, written: str) -> None:
    """A format that cannot be written is refused, and not left out."""
    with pytest.raises(UnsupportedError, match=f"the FORMAT '{written}' of bigquery .* write FORMAT_TIMESTAMP"):
        ask(session, f"SELECT CAST(t AS STRING FORMAT '{written}') AS x FROM one", dialect="bigquery")


def test_setting(session: Session) -> None:
    """SET chooses the dialect for queries and changes; statements of our own work in each."""
    session.update("SET flightllm.dialect = 'bigquery'")
    try:
        session.update('CREATE OR REPLACE TABLE made AS SELECT "it\\\'s" AS a, 1 AS b')
        session.update('INSERT INTO made VALUES ("x", 2)')
        assert ask(session, 'SELECT a FROM `made` WHERE b < 3 AND a <> "y" ORDER BY b').rows == [
            {"a": "it's"},
            {"a": "x"},
        ]
        assert ask(session, "EXPLAIN SELECT `a` FROM made").rows
        assert ask(session, "SHOW flightllm.dialect").rows[0]["value"] == "bigquery"
        assert session.describe("SELECT `a` FROM made").schema.names == ["a"]
        session.update("DROP TABLE made")
    finally:
        session.update("RESET flightllm.dialect")
    with pytest.raises(FlightLLMError, match="cannot be 'cobol': write 'default' or 'snowflake'"):
        session.update("SET flightllm.dialect = 'cobol'")


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("snowflake", "SELECT id\nFROM people WHERE (", "cannot be read as snowflake at 2:"),
        ("bigquery", "SELECT 'a", "unterminated"),
        ("bigquery", "SELECT REGEXP_EXTRACT(note, 'a', id) FROM people", "write the position and the occurrence"),
        ("bigquery", "SELECT CAST(note AS STRING(3)) FROM people", "write CAST(SUBSTR(value, 1, 3) AS STRING)"),
        ("bigquery", "SELECT DATE_TRUNC(day, EPOCH) FROM people", "write one of DAY, WEEK"),
        ("spark", "SELECT date_add(day) FROM people", "DATE_ADD of spark has no counterpart here: write"),
        ("snowflake", "SELECT 1; SELECT 2", "one statement at a time"),
        (
            "snowflake",
            "SELECT AI_AGG(note, name) FROM people",
            "AI_AGG at 1:8: the instruction must be a text literal",
        ),
        ("bigquery", 'SELECT AI.SCORE(("How glad, from 1 to 5? ", note)) FROM people', "low => 1, high => 5"),
        ("bigquery", 'SELECT """a\nb""" AS x, AI.EMBED(note) FROM people', "AI.EMBED at 2:12:"),
        ("bigquery", "SELECT 'a\\\\b' AS x, (1 + FROM", "as bigquery at 1:26: "),
        ("bigquery", "SELECT EXTRACT(WEEK(MAYDAY) FROM day) FROM people", "write WEEK(MONDAY)"),
        ("snowflake", f"SELECT ({' + '.join(['id'] * 200)})::int FROM people", "write round() inside"),
        ("duckdb", "PIVOT people ON name USING count(*)", "PIVOT people ON name IN ('x', 'y') USING COUNT(*)"),
        (
            "bigquery",
            "SELECT * FROM people PIVOT (sum(id) AS s, count(*) AS n FOR name IN ('Ann'))",
            "one FILTER for each",
        ),
        ("spark", "SELECT id FROM people WHERE id = ? AND name = ?", "write $1, $2"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """What cannot be read or has no counterpart is an error, in the user's own places."""
    with pytest.raises(FlightLLMError) as error:
        ask(session, sql, dialect=dialect)
    assert said in str(error.value)


def test_errors_of_the_planner(session: Session) -> None:
    """An error of the text as DataFusion reads it quotes that text."""
    session.update("SET flightllm.dialect = 'snowflake'")
    try:
        with pytest.raises(SqlError, match=r"(?s)No field named nothing.*read from snowflake, as: SELECT .CASE WHEN"):
            session.execute("SELECT IFF(nothing, 1, 2) FROM people")
    finally:
        session.update("RESET flightllm.dialect")


@pytest.mark.parametrize(
    ("sql", "ours"),
    [
        ("FROM people", "SELECT * FROM people"),
        (
            "FROM people p SELECT p.id, 1 AS one WHERE flag LIMIT 2",
            "SELECT p.id, 1 AS one FROM people p WHERE flag LIMIT 2",
        ),
        ("SELECT * FROM (FROM people SELECT id) AS q", "SELECT id FROM people"),
        ("FROM (FROM people SELECT id) AS q SELECT max(id) AS m", "SELECT max(id) AS m FROM people"),
        ("WITH q AS (FROM people SELECT id) FROM q", "SELECT id FROM people"),
        ("WITH q AS (SELECT 1 AS a), r AS (FROM q) FROM r SELECT a + 1 AS b", "SELECT 2 AS b"),
        ("WITH q AS (SELECT 1 AS a) SELECT (a) FROM q", "SELECT 1 AS a"),
        (
            "SELECT id FROM likes JOIN people ON id = person_id WHERE id IN (FROM likes SELECT person_id)",
            "SELECT id FROM likes JOIN people ON id = person_id",
        ),
        (
            "FROM people SELECT id UNION ALL FROM likes SELECT person_id",
            "SELECT id FROM people UNION ALL SELECT person_id FROM likes",
        ),
        (
            "SELECT extract(year FROM day) AS y, trim(both ' ' FROM name) n FROM people",
            "SELECT date_part('year', day) AS y, trim(name) n FROM people",
        ),
    ],
)
def test_from_first(session: Session, sql: str, ours: str) -> None:
    """FROM can stand first in the default dialect, and elsewhere stays what it is."""
    found, expected = ask(session, sql).rows, ask(session, ours).rows
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_parameters_keep_their_order(session: Session) -> None:
    """Parameters that would change places are refused."""
    with pytest.raises(UnsupportedError, match=r"write \$1"):
        session.describe("FROM people SELECT id + ? WHERE id = ?")


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("snowflake", "GREATEST({}, 1)"),
        ("snowflake", "DIV0({}, 2)"),
        ("snowflake", "DIV0NULL(2, {})"),
        ("snowflake", "ZEROIFNULL({})"),
        ("bigquery", "GREATEST({}, 1)"),
    ],
)
def test_copied_arguments(session: Session, dialect: str, call: str) -> None:
    """Functions whose arguments are copied can be nested, but not so deep that their text has no end."""
    text = deep = "id"
    for depth in range(16):
        text = text if depth > 2 else call.format(text)
        deep = call.format(deep)
    assert len(ask(session, f"SELECT {text} AS x FROM people", dialect=dialect).rows) == 9
    with pytest.raises(UnsupportedError, match="nested too deep"):
        ask(session, f"SELECT {deep} AS x FROM people", dialect=dialect)


@pytest.mark.slow
def test_many_rows_have_no_bound(session: Session) -> None:
    """A long text that is not nested is read whole."""
    rows = ", ".join(f"({number}, 'it''s')" for number in range(4000))
    found = ask(session, f"SELECT count(*) AS n FROM (VALUES {rows}) AS t (a, b)", dialect="postgres").rows
    assert found == [{"n": 4000}]


@pytest.mark.parametrize(
    ("dialect", "sql", "ours"),
    [
        *(
            (dialect, "SELECT 'a\\'b' AS x FROM one", "SELECT 'a''b' AS x")
            for dialect in ("bigquery", "snowflake", "databricks", "spark")
        ),
        (
            "bigquery",
            'SELECT """it\'s "x" """ AS x, r\'a\\b\' AS y, "it\'s" AS z',
            "SELECT 'it''s \"x\" ' x, 'a\\b' y, 'it''s' z",
        ),
        ("bigquery", "SELECT 1 AS x # it's\nFROM one # don't", "SELECT 1 AS x"),
        ("snowflake", "SELECT $$it's$$ AS x // don't\nFROM one", "SELECT 'it''s' AS x"),
        ("databricks", 'SELECT r"it\'s" AS x, "a" AS y /* it\'s */', "SELECT 'it''s' AS x, 'a' AS y"),
        ("snowflake", "EXPLAIN /* it's */ SELECT 'a\\'b' AS x", "EXPLAIN SELECT 'a''b' AS x"),
    ],
)
def test_quotes(session: Session, dialect: str, sql: str, ours: str) -> None:
    """Texts and comments end where their dialect says, not where ours does."""
    assert ask(session, sql, dialect=dialect).rows == ask(session, ours).rows
    assert session.describe(sql, None, {"dialect": dialect}).schema.names == session.describe(ours).schema.names
    assert not session.is_update(sql, {"dialect": dialect})


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("bigquery", "SELECT 'a\\'b' AS x FROM people TABLESAMPLE (10 PERCENT)", "TABLESAMPLE at 1:32"),
        ("bigquery", 'SELECT """\'""" AS x, repeat("a", 99999999999)', "repeat at 1:22 makes a value"),
        ("bigquery", f"SELECT '\\'' AS x, {'(' * 60}1{')' * 60}", "nested"),
        ("spark", "DROP TABLE people -- '\n; SELECT 'a\\\\'", "one statement at a time"),
        ("snowflake", "DROP TABLE $$people'$$", "a table name was expected"),
        ("bigquery", "SELECT 'a\\'b', '\udcff'", "surrogate"),
    ],
)
def test_quotes_hide_nothing(session: Session, dialect: str, sql: str, said: str) -> None:
    """What a text says between odd quotes is checked as any other text."""
    with pytest.raises(FlightLLMError) as error:
        ask(session, sql, dialect=dialect)
    assert said in str(error.value)
    assert len(ask(session, "SELECT id FROM people").rows) == 9


def test_quotes_keep_rights(tmp_path: Path) -> None:
    """Somebody who can only ask changes nothing, whatever the quotes of a text are."""
    database = small_database(tmp_path)
    try:
        database.access.store.add_user(User("ann", "readonly"))
        reader = database.session(Principal("ann", "readonly"))
        for sql in ("DELETE FROM people WHERE name = 'a\\'b'", 'INSERT INTO likes VALUES (1, """\'""", 2)'):
            assert reader.is_update(sql, {"dialect": "bigquery"})
            with pytest.raises(PermissionDeniedError):
                reader.update(sql, settings={"dialect": "bigquery"})
    finally:
        database.close()


def test_a_table_with_the_name_sample(session: Session) -> None:
    """SAMPLE is a name in Snowflake, also where a share of the rows could follow."""
    query = "WITH sample AS (SELECT id FROM people) SELECT sample.id FROM sample WHERE sample.id < 3 ORDER BY 1"
    assert [row["id"] for row in ask(session, query, dialect="snowflake").rows] == [1, 2]
