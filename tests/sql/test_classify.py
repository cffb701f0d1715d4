"""Statements are told apart by their tokens, with the parts that later stages need."""

import pytest

from flightllm.common.names import TableName
from flightllm.errors import FlightLLMError, SqlError, UnsupportedError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1;", "query"),
        ("-- why\n/* not */ ((SELECT 1) UNION SELECT 2) ;;", "query"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "query"),
        ("VALUES (1)", "query"),
        ("SHOW TABLES", "query"),
        ("DESCRIBE t", "query"),
        ("EXPLAIN SELECT 1", "explain"),
        ("SHOW flightllm.optimizer", "show"),
        ("SET flightllm.optimizer = 'off'", "set"),
        ("RESET flightllm.optimizer", "reset"),
        ("SET flightllm.quality = DEFAULT", "reset"),
        ("SET flightllm.quality TO default", "reset"),
        ("SET flightllm.dialect = 'default'", "set"),
        ("CREATE TABLE t (a INT)", "create_table"),
        ("CREATE TABLE t AS SELECT 1", "create_table_as"),
        ("CREATE VIEW v AS (SELECT 1)", "create_view"),
        ("CREATE SCHEMA s", "create_schema"),
        ("DROP TABLE t", "drop_table"),
        ("DROP VIEW v", "drop_view"),
        ("DROP SCHEMA s RESTRICT", "drop_schema"),
        ("DROP TABLE t CASCADE", "drop_table"),
        ("INSERT INTO t VALUES (1)", "insert"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "insert"),
        ("DELETE FROM t WHERE a IS DISTINCT FROM 1", "delete"),
        ("UPDATE t SET a = extract(year FROM d)", "update"),
        ("BEGIN", "transaction"),
        ("ROLLBACK", "transaction"),
    ],
)
def test_kind(sql: str, kind: str) -> None:
    """Every supported statement is known, through comments, parentheses and trailing semicolons."""
    assert classify(ParsedText(sql)).kind == kind


def test_updates_are_told_from_queries() -> None:
    """Only queries, EXPLAIN and SHOW return rows."""
    assert not any(
        classify(ParsedText(sql)).is_update for sql in ("SELECT 1", "EXPLAIN SELECT 1", "SHOW flightllm.optimizer")
    )
    assert all(
        classify(ParsedText(sql)).is_update
        for sql in ("SET flightllm.a = 1", "DROP TABLE t", "INSERT INTO t VALUES (1)")
    )


def test_text_has_no_comment_around_it() -> None:
    """A trailing line comment cannot swallow what is written after the text."""
    assert classify(ParsedText("/* a */ SELECT 1 -- b\n; -- c")).text == "SELECT 1"


def test_table_becomes_a_query() -> None:
    """TABLE t, which DataFusion does not know, is SELECT * FROM t."""
    assert classify(ParsedText("TABLE Movies")).query == 'SELECT * FROM "flightllm"."public"."movies"'


@pytest.mark.parametrize(
    ("options", "analyze", "form"),
    [
        ("", False, "text"),
        ("ANALYZE VERBOSE", True, "text"),
        ("(ANALYZE)", True, "text"),
        ("(format JSON)", False, "json"),
        ("(ANALYZE, FORMAT json, COSTS off)", True, "json"),
        ("(ANALYZE false, VERBOSE, FORMAT 'text')", False, "text"),
        ("ANALYZE FORMAT json", True, "json"),
    ],
)
@pytest.mark.parametrize("query", ["SELECT 1", "(SELECT 1)"])
def test_explain_parts(options: str, analyze: bool, form: str, query: str) -> None:
    """EXPLAIN's options, as PostgreSQL and DataFusion spell them, and the query inside are taken apart."""
    statement = classify(ParsedText(f"EXPLAIN {options} {query}"))
    assert (statement.analyze, statement.format, statement.query) == (analyze, form, query)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("FORMAT TREE", "FORMAT text or FORMAT json"),
        ("(FORMAT yaml)", "FORMAT text or FORMAT json"),
        ("(ANALYZE FORMAT json)", "expected , or"),
        ("(ANALYZE, wal)", "no option 'wal'"),
        ("(FORMT json)", "no option 'formt': write ANALYZE, SAVINGS off, VERBOSE or FORMAT text"),
        ("(ANALYSE)", "no option 'analyse': write ANALYZE"),
        ("(ANALYZE,", "not closed|no option"),
        ("(ANALYZE)", "EXPLAIN needs a statement"),
    ],
)
def test_explain_mistakes(options: str, text: str) -> None:
    """A format or option that there is not is refused, with what there is."""
    query = "" if text.startswith("EXPLAIN needs") else " SELECT 1"
    with pytest.raises(FlightLLMError, match=text):
        classify(ParsedText(f"EXPLAIN {options}{query}"))


@pytest.mark.parametrize(
    ("sql", "key", "value"),
    [
        ("SET flightllm.optimizer = 'off'", "optimizer", "off"),
        ("SET FlightLLM.Batch_Rows TO -5", "batch_rows", "-5"),
        ("SET flightllm.a.b = on", "a.b", "on"),
    ],
)
def test_settings(sql: str, key: str, value: str) -> None:
    """Keys fold to lower case and lose the prefix; values may be words, numbers or text."""
    statement = classify(ParsedText(sql))
    assert (statement.key, statement.value) == (key, value)


def test_create_table_as_parts() -> None:
    """The session gets target, flags and the inner query to run itself."""
    made = classify(ParsedText('CREATE OR REPLACE TABLE flightllm.X."Y z" AS WITH a AS (SELECT 1) SELECT * FROM a'))
    assert made.target == TableName("x", "Y z")
    assert (made.or_replace, made.exists_ok) == (True, False)
    assert made.query == "WITH a AS (SELECT 1) SELECT * FROM a"
    assert classify(ParsedText("CREATE TABLE IF NOT EXISTS t AS SELECT 1")).exists_ok


def test_view_and_insert_columns() -> None:
    """Column lists are read, and a query in parentheses is not taken for one."""
    assert classify(ParsedText('CREATE VIEW v (A, "B") AS SELECT 1, 2')).columns == ("a", "B")
    insert = classify(ParsedText('WITH q AS (SELECT 1) INSERT INTO t (A, "B") SELECT * FROM q'))
    assert (insert.columns, insert.query) == (("a", "B"), "WITH q AS (SELECT 1) SELECT * FROM q")
    assert classify(ParsedText("INSERT INTO t (SELECT 1)")).columns == ()


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "EXPLAIN COPY (SELECT 1) TO '/tmp/x.csv'",
        "CREATE TABLE t AS COPY (SELECT 1) TO 'x'",
        "CREATE UNBOUNDED EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "SET datafusion.runtime.temp_directory = '/etc'",
        "DROP SCHEMA s CASCADE",
        "SET datafusion.execution.batch_size = 1",
        "RESET datafusion.runtime.memory_limit",
        "PREPARE p AS SELECT 1",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "DELETE FROM t LIMIT 1",
        "EXPLAIN ANALYZE DELETE FROM t",
        "UPDATE t SET (a, b) = (SELECT 1, 2)",
        "UPDATE t SET a = 1 ORDER BY a",
    ],
)
def test_refused(sql: str) -> None:
    """Paths, foreign settings and statements DataFusion would run wrongly are refused before it sees them."""
    with pytest.raises(UnsupportedError):
        classify(ParsedText(sql))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (" ; -- nothing", "is empty"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("FROB 1", "'FROB'"),
        ("'text'", "no statement starts"),
        ("SELECT 'open", "quoted"),
        ("CREATE TABLE t (a INT) LOCATION '/x'", "nothing can follow"),
        ("CREATE TABLE t (a INT", "missing"),
        ("CREATE TABLE t", "CREATE TABLE name"),
        ("CREATE TABLE a.b.c.d (x INT)", "no catalog 'a'"),
        ("CREATE VIEW v AS SHOW TABLES", "needs a query"),
        ("CREATE VIEW v", "AS was expected: .*; found the end of the statement$"),
        ("CREATE TABLE IF t (a INT)", "^NOT EXISTS was expected: write IF NOT EXISTS; found 't'$"),
        ("CREATE TABLE IF NOT t (a INT)", "^NOT EXISTS was expected: write IF NOT EXISTS; found 't'$"),
        ("CREATE OR TABLE t (a INT)", "^REPLACE was expected: .*; found 'TABLE'$"),
        ("DROP TABLE a b", "^'b' was not expected: DROP TABLE takes names with commas between them: DROP TABLE a, b$"),
        ("DROP VIEW a,", "a table name was expected"),
        ("DROP SCHEMA a, b", "^',' was not expected: DROP SCHEMA takes one name$"),
        ("SET flightllm.a", "= 'value'"),
        ("SET flightllm.a = 1 2", "one value"),
        ("SET flightllm.a = NULL", "write SET flightllm.a = DEFAULT$"),
        ("EXPLAIN", "EXPLAIN needs a statement"),
        ("INSERT INTO t (a b) VALUES (1)", "column names"),
        ("INSERT INTO t", "needs a query"),
    ],
)
def test_malformed(sql: str, message: str) -> None:
    """What is wrong is named, with what to write instead where that is known."""
    with pytest.raises(SqlError, match=message):
        classify(ParsedText(sql))


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("DROP TABLE t", ["public.t"]),
        ('DROP TABLE IF EXISTS a, s.b, flightllm.public.a, "B" CASCADE', ["public.a", "s.b", "public.B"]),
        ("DROP VIEW v, w", ["public.v", "public.w"]),
        ("DROP SCHEMA s", []),
    ],
)
def test_dropped(sql: str, names: list[str]) -> None:
    """DROP TABLE and DROP VIEW take several names, each of which counts once."""
    found = classify(ParsedText(sql))
    assert [f"{name.schema}.{name.name}" for name in found.dropped] == names
    assert not names or found.target == found.dropped[0]
