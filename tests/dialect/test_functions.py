"""Functions of other servers do what they do there; those that differ between servers are refused."""

from collections.abc import Iterator
from datetime import datetime

import pytest

from flightllm.dialect import rewrite
from flightllm.dialect.formats import from_letters, to_parse, to_write
from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.synonyms import SYNONYMS
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables, and one with a time and a JSON text."""
    database = small_database(tmp_path_factory.mktemp("functions"))
    session = database.session()
    session.update(
        """CREATE TABLE one AS SELECT TIMESTAMP '2024-03-05 16:07:08.25' AS t, 'k' AS k,
        '{"a": {"b": 1, "c d": [1.10, {"e": "f\\"g"}]}, "n": null, "s": "x",
        "y": true, "big": 12345678901234567890}' j"""
    )
    yield session
    database.close()


@pytest.mark.parametrize(
    ("expression", "ours"),
    [
        ("iff(flag, 'y', 'n')", "CASE WHEN flag THEN 'y' ELSE 'n' END"),
        ("iff(flag,id,length(name))", "CASE WHEN flag THEN id ELSE length(name) END"),
        ("IF(flag, 1, iff(score > 2, 2, 3))::text", "CASE WHEN flag THEN '1' WHEN score > 2 THEN '2' ELSE '3' END"),
        ("count_if(flag OR id = 2) FILTER (WHERE id > 2 OR id = 3) OVER ()", "3"),
        ("count_if(flag) OVER (PARTITION BY name)", "count(*) FILTER (WHERE flag) OVER (PARTITION BY name)"),
        ("mod(id + 1, 1 + 2)", "(id + 1) % (1 + 2)"),
        ("ucase(name) || lcase(name)", "upper(name) || lower(name)"),
        ("ceiling(score) + sign(-id) + truncate(score, 1)", "ceil(score) - 1 + trunc(score, 1)"),
        ("from_hex('6162')", "decode('6162', 'hex')"),
        ("nvl(name, '-')", "coalesce(name, '-')"),
        ("iff(ai_filter('Is it?', note), 1, 0)", "CASE WHEN ai_filter('Is it?', note) THEN 1 ELSE 0 END"),
        ("regexp_extract(note, 't[e]a')", "CASE WHEN note LIKE '%tea%' THEN 'tea' WHEN note IS NOT NULL THEN '' END"),
        ("regexp_extract(note, '(\\w+) (\\w+)', 2)", "split_part(note, ' ', 2)"),
        ("regexp_extract(note, '(\\w+) (\\w+)', 0)", "CASE WHEN note LIKE 'owns%' THEN 'owns a' ELSE note END"),
        ("regexp_extract(iff(flag, 'ab', 'cb'), '[ac]')", "CASE WHEN flag THEN 'a' ELSE 'c' END"),
        ("regexp_extract(note, iff(flag, 'z', 'q'), 0)", "CASE WHEN note IS NOT NULL THEN '' END"),
    ],
)
def test_expressions(session: Session, expression: str, ours: str) -> None:
    """Each row has the value that DataFusion's own form gives, NULL for NULL."""
    found = ask(session, f"SELECT id, {expression} AS x FROM people ORDER BY id").rows
    assert found == ask(session, f"SELECT id, {ours} AS x FROM people ORDER BY id").rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("count_if(id > 2)", 7),
        ("countif(id > 20)", 0),
        ("list(id ORDER BY id)", [*range(1, 10)]),
        ("array_length(list(name))", 9),
    ],
)
def test_aggregates(session: Session, expression: str, value: object) -> None:
    """Aggregates count and list as they do elsewhere, with 0 for no row and NULLs in lists."""
    assert ask(session, f"SELECT {expression} AS x FROM people").rows == [{"x": value}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("to_char(t, 'YYYY-MM')", "2024-03"),
        ("to_char(t, 'yyyy-mm-dd hh24:mi:ss')", "2024-03-05 16:07:08"),
        ("to_char(t, 'DD Mon YYYY, HH12:MI AM')", "05 Mar 2024, 04:07 PM"),
        ("to_char(t, 'YYYY-MM-DDTHH24:MI:SS.FF3')", "2024-03-05T16:07:08.250"),
        ('to_char(t, \'IYYY"-W"IW "Q"Q DDD US\')', "2024-W10 Q1 065 250000"),
        ("to_char(t, 'FMDay, FMMonth')", "Tuesday, March"),
        ("[year(t), quarter(t), month(t), day(t), hour(t), minute(t), second(t)]", [2024, 1, 3, 5, 16, 7, 8]),
        ("[dayofmonth(t), DayOfYear(t)]", [5, 65]),
        ("curdate() = current_date AND curtime() IS NOT NULL", True),
        ("current_timestamp(3) = date_trunc('millisecond', now())", True),
        ("CURRENT_TIMESTAMP(0) = date_trunc('second', current_timestamp())", True),
        ("localtimestamp = CAST(current_timestamp AS TIMESTAMP)", True),
        ("LOCALTIMESTAMP(3) = date_trunc('millisecond', LocalTimestamp())", True),
        ("arrow_typeof(localtimestamp)", "Timestamp(ns)"),
        ("(SELECT z.localtimestamp FROM (SELECT 7 AS localtimestamp) z)", 7),
        ("""(SELECT "localtimestamp" FROM (SELECT 7) z("localtimestamp"))""", 7),
        ("to_char(t, '%d.%m.')", "05.03."),
        ("strftime(t, '%d.%m.%y %f')", "05.03.24 250000"),
        ("strptime('2024-01-02', '%Y-%m-%d')", datetime(2024, 1, 2)),  # noqa: DTZ001 - SQL's own has no zone
        ("strptime('3:04:05.5 2.1.2024', '%H:%M:%S.%f %d.%m.%Y')", datetime(2024, 1, 2, 3, 4, 5, 500_000)),  # noqa: DTZ001
        ("j -> 'a' -> 'b'", "1"),
        ("max(j) OVER () -> 'a' ->> 'b'", "1"),
        ("max(j) FILTER (WHERE true) OVER (ORDER BY j) ->> 's' || '!'", "x!"),
        ("CASE WHEN j IS NULL THEN '{}' ELSE CASE WHEN true THEN j END END ->> 's'", "x"),
        ("""VARCHAR '{"a": 1}' ->> 'a'""", "1"),
        ("""TEXT '{"a": 1}' -> 'a'""", "1"),
        ("j -> 'a' ->> 'c d'", '[1.10, {"e": "f\\"g"}]'),
        ("j->'a'->'c d'->-1->>'e'", 'f"g'),
        ("j->'a'->'c d'->0", "1.10"),
        ("j::jsonb ->> 's' || '!'", "x!"),
        ("(j::json)->>'s' = 'x'", True),
        ("coalesce(one.j, '{}') ->> 's'", "x"),
        ("[j][1] ->> 's'", "x"),
        ("(j->'a'->>'b')::int + 1", 2),
        ("j->'n'", "null"),
        ("j->>'n'", None),
        ("j->>'none'", None),
        ("j->>'big'", "12345678901234567890"),
        ("'no JSON'->>'a'", None),
        ("json_get(j, 'a', 'c d', 0)", "1.10"),
        ("json_get(j, 'a') ->> 'b'", "1"),
        ("json_get_int(j, 'a', 'b')", 1),
        ("json_get_int(j, 'big')", None),
        ("json_get_int(j, 's')", None),
        ("json_get_float(j, 'a', 'c d', 0)", 1.1),
        ("json_get_bool(j, 'y')", True),
        ("json_get_str(j, 's')", "x"),
        ("json_get_str(j, 'y')", None),
        ("json_as_text(j, 'y')", "true"),
        ("json_extract(j, '$.a.b')", "1"),
        ("json_extract(j, '$')->>'s'", "x"),
        ("json_extract(j, 's')", '"x"'),
        ("json_extract(j, '$.a[\"c d\"][#-1]')", '{"e": "f\\"g"}'),
        ("json_extract(j, iff(k = 'k', '$.s', '$..'))", '"x"'),
        ("json_extract_string(j, '$.s')", "x"),
        ("get_json_object(j, '$.a.b')", "1"),
        ("json_value(j, '$.a')", None),
        ("json_extract_scalar(j, '$.y')", "true"),
        ("json_extract_path_text(j, 'a', 'b')", "1"),
        ("json_extract(j, '/a/b')", "1"),
        ("json_extract_string(j, '/a/c d/1/e')", 'f"g'),
        ("json_extract_string(j, concat('/a/', 'b'))", "1"),
        ('json_extract(\'{"a/b": {"~": 1}, "": 2}\', \'/a~1b/~0\')', "1"),
        ("json_get('{\"/a\": 3}', '/a')", "3"),
        ("""'{"/a": 3}' -> '/a'""", "3"),
        ("json_length('[1, 2]')", 2),
        ("json_array_length(j)", None),
        ("json_object_keys(j)", ["a", "n", "s", "y", "big"]),
        ("json_valid(j)", True),
        ("json_valid('{')", False),
    ],
)
def test_times_and_json(session: Session, expression: str, value: object) -> None:
    """Formats of times and paths into JSON give the value that they give elsewhere; numbers keep their digits."""
    assert ask(session, f"SELECT {expression} AS x FROM one").rows == [{"x": value}]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("regexp_extract(k, '(k)')", "write the group as third argument"),
        ("regexp_extract(k, k)", "write the group as third argument"),
        ("regexp_extract(k, '(k)', 2)", "the pattern has 1 groups"),
        ("to_char(t, 'mm:ss')", "write the format with %"),
        ("to_char(t, 'yyyy-MM-dd')", "write the format with %"),
        ("current_timestamp(2)", "write 0, 3 or 6"),
        ("localtimestamp(2)", "write 0, 3 or 6"),
        ("strptime(k, '%y')", "%y in the format"),
        ("strptime(k, k)", "must be a text literal"),
        ("strftime('%Y', t)", "after the time"),
        ("json_extract(j, '$..a')", "write names and positions"),
        ("to_char(t, 'hh24:mi:ssss')", "'ssss' in the format"),
        ("json_extract_path_text(j, 'a.b')", "write ->> 'a.b' for the name, or json_extract_string(text, '$.a.b')"),
        ("json_extract_path_text(j, 'a[0]')", "json_extract_string(text, '$.a[0]') for the path"),
        ("json_extract_path_text(j, 'a', '0')", "write -> '0' or -> 0"),
    ],
)
def test_refused(session: Session, expression: str, said: str) -> None:
    """What would mean something else to some server is refused at its place."""
    with pytest.raises(SqlError) as error:
        session.execute(f"SELECT\n{expression} FROM one")
    assert said in str(error.value)
    assert " at 2:1" in str(error.value)


@pytest.mark.parametrize(
    ("text", "read"), [("YYYY%", None), ("HH:MI", "%I:%M"), ("mm/yy", "%m/%y"), ("DD.MM.", "%d.%m."), ("XX", None)]
)
def test_letters(text: str, read: str | None) -> None:
    """Letters of formats are read whole; others are errors."""
    if read is None:
        with pytest.raises(ValueError, match="format"):
            from_letters(text.rstrip("%") + "XX")
    else:
        assert from_letters(text) == read


def test_percents() -> None:
    """`%f` are six digits to write, and any number of digits after a dot to read."""
    assert (to_write("%S.%f %D"), to_parse("%S.%f")) == ("%S.%6f %D", "%S%.f")
    with pytest.raises(ValueError, match="%f"):
        to_parse("%S,%f")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.iff(1, 2, 3)",
        "SELECT * FROM t AS list(a, b)",
        "WITH list(a) AS (SELECT 1) SELECT * FROM list",
        "INSERT INTO list(a) VALUES (1)",
        "DROP TABLE IF EXISTS list",
        "SELECT to_char(t, f), to_char(t, '%Y'), to_char(t, '--')",
        'UPDATE t SET a = "localtimestamp", localtimestamp = 1 WHERE t.localtimestamp = 2',
        "CREATE TABLE t (localtimestamp INT, UNIQUE (localtimestamp))",
        "INSERT INTO t (a, localtimestamp) VALUES (1, 2)",
        "WITH q (localtimestamp) AS (VALUES (1)) SELECT 1 FROM q JOIN t USING (localtimestamp)",
        "MERGE INTO t USING u ON a = b WHEN NOT MATCHED THEN INSERT (a, localtimestamp) VALUES (1, 2)",
    ],
)
def test_leaves_alone(sql: str) -> None:
    """Tables, lambdas and formats that DataFusion reads stay."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql


def test_localtimestamp_in_changes(session: Session) -> None:
    """A change reads `localtimestamp` as the time; the same word in quotes, or before the `=` of SET, is a column."""
    session.update('CREATE TABLE times (at TIMESTAMP, "localtimestamp" INT)')
    session.update("INSERT INTO times (at, localtimestamp) VALUES (TIMESTAMP '2024-01-01 00:00:00', 1)")
    checked = """SELECT at > TIMESTAMP '2024-01-01 00:00:00' AND at <= localtimestamp, "localtimestamp" FROM times"""
    assert session.update('UPDATE times SET at = localtimestamp, "localtimestamp" = "localtimestamp" + 1') == 1
    assert [tuple(row.values()) for row in ask(session, checked).rows] == [(True, 2)]
    assert session.update("UPDATE times SET localtimestamp = 8, at = LOCALTIMESTAMP WHERE at < localtimestamp") == 1
    assert [tuple(row.values()) for row in ask(session, checked).rows] == [(True, 8)]


def test_localtimestamp_as_default(session: Session) -> None:
    """A table's column can have the time as its default; a column can have the name in quotes."""
    session.update('CREATE TABLE z (x TIMESTAMP NOT NULL DEFAULT localtimestamp, "localtimestamp" INT DEFAULT 7)')
    assert session.update("INSERT INTO z (localtimestamp) VALUES (1)") == 1
    assert session.update("INSERT INTO z (x) VALUES (DEFAULT)") == 1
    shown = (
        """SELECT "localtimestamp" AS n, x > TIMESTAMP '2024-01-01' AND x <= localtimestamp AS told FROM z ORDER BY n"""
    )
    assert ask(session, shown).rows == [{"n": 1, "told": True}, {"n": 7, "told": True}]


def test_numbers_of_calls_in_several_aggregates(session: Session) -> None:
    """An aggregate reads numbers from an AI call beside aggregates of other casts of the same call."""
    call = "llm('How many?', note)"
    alone = {f"avg({call}{cast})": ask(session, f"SELECT avg({call}{cast}) FROM people").table[0][0].as_py()
             for cast in ("::int", "::double", "")}  # fmt: skip
    together = ask(session, f"SELECT avg({call}::int) AS a, avg({call}::double) AS b FROM people").rows
    assert [list(row.values()) for row in together] == [list(alone.values())[:2]]
    assert None not in alone.values()
    kept = f"SELECT avg({call}) AS a FROM people HAVING avg({call}::int) >= {alone[f'avg({call}::int)']}"
    assert ask(session, kept).rows == [{"a": alone[f"avg({call})"]}]


def test_calls_after_extend(session: Session) -> None:
    """EXTEND and AGGREGATE of a pipe take functions and AI calls; a name after a table `extend` in FROM is an alias."""
    call = "ai_filter('Is it?', note)"
    extended = f"FROM people |> EXTEND 1 AS one, {call} AS x |> AGGREGATE count_if(x) AS n"
    assert ask(session, extended).rows == ask(session, f"SELECT count_if({call}) AS n FROM people").rows
    bare = "FROM one |> EXTEND 1 AS x, localtimestamp AS y |> SELECT x, y = localtimestamp AS now"
    assert ask(session, bare).rows == [{"x": 1, "now": True}]
    named = "SELECT extend.a AS a, llm.b AS b FROM (SELECT 1 AS a) AS extend, (SELECT 2 AS a) llm(b)"
    assert ask(session, named).rows == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("name", sorted(SYNONYMS))
def test_synonyms_are_said(session: Session, name: str) -> None:
    """A function that others have is an error that names ours."""
    with pytest.raises(FlightLLMError) as error:
        session.execute(f"SELECT {name}(k, k) FROM one")
    assert f"write {SYNONYMS[name]}" in str(error.value)


@pytest.mark.parametrize("expression", sorted(set(SYNONYMS.values())))
def test_synonyms_run(session: Session, expression: str) -> None:
    """What an error says to write runs, with columns of these names."""
    columns = (
        "SELECT 1 AS x, 1 AS a, 2 AS b, 3 AS value, '2024-01-02' AS text, 'l' AS part, 'l' AS pattern, [1] AS list,"
        " TIMESTAMP '2024-01-02' AS time, TIMESTAMP '2024-01-02' AS later, TIMESTAMP '2024-01-01' AS earlier,"
        " true AS flag, 'r' AS review"
    )
    for written in expression.partition(", as ")[0].partition(", because ")[0].split(", or "):
        runs = written.replace("bool_or(x)", "bool_or(flag)").replace("'%Y-%m-%d %H:%M:%S'", "'%Y-%m-%d'")
        runs = runs.replace("text AS DECIMAL", "'1' AS DECIMAL").replace("distance(a, b)", "distance([1.0], [2.0])")
        assert len(ask(session, f"SELECT {runs} AS found FROM ({columns}) AS columns").rows) == 1


def test_names_spelt_alike(session: Session) -> None:
    """A name that is spelt alike is suggested, one that is not like it is not."""
    with pytest.raises(SqlError, match="Did you mean 'upper'"):
        session.execute("SELECT uper('a')")
    with pytest.raises(SqlError, match="SHOW FUNCTIONS"):
        session.execute("SELECT entirely_unknown(1)")


@pytest.mark.parametrize("name", ["histogram", "date_sub", "similarity"])
def test_other_functions_are_not_suggested(session: Session, name: str) -> None:
    """A function of another server is not taken for a misspelt one with another meaning."""
    with pytest.raises(SqlError, match="SHOW FUNCTIONS"):
        session.execute(f"SELECT {name}('a', 'b')")
