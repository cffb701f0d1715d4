"""The queries about the catalog that PostgreSQL's clients are known to send, over this server's own tables."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError, LimitExceededError, NotFoundError, SqlError, UnsupportedError
from flightllm.functions.registry import FunctionRegistry
from flightllm.pg_catalog import parsing, translation
from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.dialect.test_postgres_names import NAMES

pytest.importorskip("duckdb")

TABLES = (
    "CREATE TABLE parent (a INTEGER NOT NULL, b TEXT, n DECIMAL(10,2) DEFAULT 5, ts TIMESTAMP, PRIMARY KEY (a))",
    """CREATE TABLE child (c BIGINT, a INTEGER, tags TEXT[], PRIMARY KEY (c),
    FOREIGN KEY (a) REFERENCES parent (a) ON DELETE CASCADE, UNIQUE (a, c))""",
    "CREATE VIEW v AS SELECT b, count(*) AS k FROM parent GROUP BY b",
)
TEXTS = [text.strip().partition("\n") for text in (Path(__file__).parent / "tools.sql").read_text().split("\n;\n")]
TOOLS = {name.removeprefix("-- "): sql for name, _, sql in TEXTS if sql}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over two tables with keys, and a view."""
    database = open_database(tmp_path_factory.mktemp("pg_catalog"))
    session = database.session()
    for text in TABLES:
        session.update(text)
    yield session
    database.close()


def column(session: Session, sql: str, name: str | None = None) -> list[object]:
    """Return one column of a query."""
    table = ask(session, sql).table
    values: list[object] = table.column(name or 0).to_pylist()
    return values


@pytest.mark.parametrize(
    ("tool", "name", "values"),
    [
        ("pgjdbc getTables", "table_name", ["child", "parent"]),
        ("pgjdbc getColumns", "attname", ["a", "b", "n", "ts"]),
        ("pgjdbc getColumns", "atttypmod", [-1, -1, 655366, -1]),
        ("pgjdbc getPrimaryKeys", "column_name", ["a"]),
        ("pgjdbc getImportedKeys", "PKTABLE_NAME", ["parent"]),
        ("pgjdbc getIndexInfo", "column_name", ["a", "c", "c"]),
        ("dbt get_catalog", "format_type", ["integer", "text", "numeric(10,2)", "timestamp without time zone"]),
        ("dbt list_relations", "type", ["table", "table", "view"]),
        ("Grafana tables", "quote_ident", ["child", "parent"]),
        ("rights", "pg_has_role", [True]),
        ("DBeaver schemas", "nspname", ["information_schema", "pg_catalog", "public", "system"]),
        ("DBeaver columns", "def_value", [None, None, "5", None]),
        ("Metabase schemas", "nspname", ["information_schema", "public", "system"]),
    ],
)
def test_tools(session: Session, tool: str, name: str, values: list[object]) -> None:
    """Each tool finds the tables, columns and keys."""
    found = column(session, TOOLS[tool], name)
    assert found == values or sorted(map(str, found)) == list(map(str, values))


@pytest.mark.parametrize("tool", TOOLS)
def test_each_runs(session: Session, tool: str) -> None:
    """Each query has rows, and is described with the schema of its rows."""
    result = session.execute(TOOLS[tool])
    assert sum(batch.num_rows for batch in result.batches)
    assert session.describe(TOOLS[tool]).schema == result.schema


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT 'parent'::regclass", "parent"),
        ("SELECT 'pg_catalog.pg_class'::regclass::oid", 1259),
        ("SELECT 'public.parent'::regclass::text", "parent"),
        ("SELECT to_regclass('nothing')", None),
        ("SELECT format_type(1043, 14)", "character varying(10)"),
        ("SELECT format_type(1231, ((10 << 16) | 2) + 4)", "numeric(10,2)[]"),
        ("SELECT 'int4[]'::regtype::oid", 1007),
        ("SELECT 23::regtype", "integer"),
        ("SELECT 'parent'::regclass OPERATOR(pg_catalog.=) 'parent'::regclass", True),
        ("SELECT relname FROM pg_class WHERE relname LIKE 'par\\_nt'", None),
        ("SELECT relname FROM pg_class WHERE relname LIKE 'par_nt'", "parent"),
        ("SELECT relname !~ '^(p|q)' FROM pg_class WHERE oid = 'parent'::regclass", False),
        (
            "SELECT relname OPERATOR(pg_catalog.~) '^(p)' COLLATE pg_catalog.default FROM pg_class WHERE oid = 1259",
            True,
        ),
        ("SELECT indkey FROM pg_index WHERE indexrelid = 'child_a_c_key'::regclass", "2 1"),
        ("SELECT indkey[0] FROM pg_index WHERE indexrelid = 'child_a_c_key'::regclass", 2),
        ("SELECT conkey[1] FROM pg_constraint WHERE conname = 'child_a_c_key'", 2),
        ("SELECT conkey::text FROM pg_constraint WHERE conname = 'child_a_c_key'", "{2,1}"),
        ("SELECT array_to_string(conkey, '-') FROM pg_constraint WHERE conname = 'child_a_c_key'", "2-1"),
        (
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'child_a_fkey'",
            "FOREIGN KEY (a) REFERENCES parent(a) ON DELETE CASCADE",
        ),
        (
            "SELECT pg_get_indexdef('child_a_c_key'::regclass::oid)",
            "CREATE UNIQUE INDEX child_a_c_key ON public.child USING btree (a, c)",
        ),
        ("SELECT pg_get_viewdef('v'::regclass)", "SELECT b, count(*) AS k FROM parent GROUP BY b;"),
        ("SELECT pg_size_pretty(123456789::bigint)", "118 MB"),
        ("SELECT pg_size_pretty(10239::bigint)", "10239 bytes"),
        ("SELECT quote_ident('select')", '"select"'),
        ("SELECT format('%I.%s', 'a b', 'c'), pg_backend_pid()", '"a b".c'),
        ("SELECT current_setting('server_version_num')", "150000"),
        ("SELECT current_setting('no_such', true)", None),
        ("SELECT typinput FROM pg_type WHERE typname = '_text'", "array_in"),
        ("SELECT tableoid FROM pg_class LIMIT 1", 1259),
        ("SELECT has_table_privilege('parent', 'SELECT, INSERT')", True),
        ("SELECT substring(relname from '^(.).*') FROM pg_class WHERE relname = 'parent'", "p"),
        ("SELECT sum(i) FROM generate_series(1, 3) i, pg_namespace WHERE nspname = 'public'", 6),
        ("SELECT unique_constraint_name FROM information_schema.referential_constraints", "parent_pkey"),
        ("SELECT udt_name FROM information_schema.columns WHERE column_name = 'tags'", "_text"),
        (
            "with p as (select 1 as select, tablename as x from pg_catalog.pg_tables) select count(*) > 0 as a from p",
            True,
        ),
        ("SELECT (parse_ident('Public.\"A b\"'))[2]", "A b"),
        ("SELECT array_length(parse_ident('t'), 1)", 1),
        ("SELECT oid FROM pg_class WHERE relname = ANY(parse_ident('pg_class'))", 1259),
        ("SELECT count(*) FROM pg_class WHERE relname = 'pg_am' AND relname <> ALL('{a,abs}'::text[])", 1),
        ("SELECT count(*) FROM pg_class WHERE relname = 'pg_am' AND relname <> ALL('{pg_am,abs}'::text[])", 0),
        ("SELECT count(*) FROM pg_class WHERE relname = ALL('{pg_am,pg_am}'::text[])", 1),
        ("SELECT pg_cancel_backend(1)", False),
        ("SELECT setting FROM pg_settings WHERE name = 'TimeZone'", "UTC"),
        ("SELECT current_setting('DateStyle')", "ISO, YMD"),
        ("SELECT pg_typeof(1)", "integer"),
        ("SELECT pg_typeof('a'::text)", "text"),
        ("SELECT pg_typeof(ARRAY[1.5::float8])", "double precision[]"),
        ("SELECT pg_typeof('pg_am'::regclass)", "regclass"),
        ("SELECT pg_typeof(i) FROM generate_series(1, 2) i, pg_am LIMIT 1", "integer"),
        ("SELECT pg_typeof(i) FROM generate_series(1, 3000000000, 1000000000) i, pg_am LIMIT 1", "bigint"),
        ("SELECT 7::bigint / 2 FROM pg_am LIMIT 1", 3),
        ("SELECT -7 / 2 FROM pg_am LIMIT 1", -3),
        ("SELECT sum(oid::bigint) / 2 FROM pg_am WHERE amname IN ('btree', 'heap')", 202),
        ("SELECT (oid + 0) / 2 FROM pg_am WHERE amname = 'btree'", 201),
        ("SELECT 7.0 / 2 FROM pg_am LIMIT 1", 3.5),
        ("SELECT 7::float8 / 2 FROM pg_am LIMIT 1", 3.5),
        ("SELECT current_setting('server_version_num')::int / 100 AS version", 1500),
        ("SELECT count(*) FROM pg_stats", 0),
        ("SELECT count(*) FROM pg_statio_user_tables", 0),
    ],
)
def test_values(session: Session, sql: str, value: object) -> None:
    """Functions, casts and operators give what PostgreSQL gives."""
    assert next(iter(column(session, sql)), None) == value


def test_names(session: Session) -> None:
    """Columns without an alias have PostgreSQL's names."""
    sql = """SELECT count(*) OVER (), relname::text, 1::oid, 'a'::text::name,
    (SELECT nspname FROM pg_namespace LIMIT 1), CASE WHEN true THEN 1 END, EXISTS (SELECT 1), relname || 'x',
    pg_catalog.version(), NULL FROM pg_class"""
    names = ["count", "relname", "oid", "name", "nspname", "case", "exists", "?column?", "version", "?column?"]
    assert session.describe(sql).schema.names == names


@pytest.mark.parametrize("expression", [one for one in NAMES if "ai_gen" not in one])
def test_names_as_elsewhere(expression: str) -> None:
    """Queries about the catalog name their columns as those about tables do."""
    asked = parsing._parsed(f"SELECT {expression} FROM t")
    assert asked is not None
    assert translation._output_name(asked.expressions[0]) == NAMES[expression]


def test_own_functions(session: Session) -> None:
    """The types of the server's own functions have PostgreSQL's names."""
    sql = """SELECT prorettype::regtype::text AS kind, pg_get_function_result(oid) AS result,
    pg_get_function_arguments(oid) AS given FROM pg_proc WHERE proname = 'ai_count_tokens'"""
    assert [column(session, f"SELECT {name} FROM ({sql}) q")[0] for name in ("kind", "result", "given")] == [
        "bigint",
        "bigint",
        "text",
    ]


def test_parameters(session: Session) -> None:
    """A parameter has the type of its cast or of the column beside it, and takes a value."""
    sql = "SELECT relname FROM pg_class WHERE oid = ANY($1::oid[]) AND relname <> $2 AND relnamespace = $3"
    described = session.describe(sql)
    assert described.parameters.types == [pa.list_(pa.uint32()), pa.string(), pa.uint32()]
    oid = column(session, "SELECT 'parent'::regclass::oid")[0]
    kinds = list(zip("012", described.parameters.types, strict=True))
    row = pa.RecordBatch.from_pylist([{"0": [oid, 1], "1": "x", "2": 2200}], schema=pa.schema(kinds))
    result = session.execute(sql, row)
    assert [batch.to_pylist() for batch in result.batches] == [[{"relname": "parent"}]]


def test_numbers_stay(tmp_path: Path) -> None:
    """The number of a table is the same in another session and after a restart."""
    sql = "SELECT 'parent'::regclass::oid"
    numbers = list[list[object]]()
    for _ in range(2):
        database = open_database(tmp_path)
        session = database.session()
        if not numbers:
            session.update(TABLES[0])
        numbers.append(column(session, sql))
        database.close()
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT no_such FROM pg_class", SqlError, "no_such"),
        ("SELECT 'no_such'::regclass", NotFoundError, "there is no relation 'no_such'"),
        ("SELECT no_such(oid) FROM pg_class", UnsupportedError, "there is no function no_such()"),
        ("SELECT * FROM pg_class, read_csv('/etc/passwd')", FlightLLMError, "read_csv"),
        ("SELECT read_text('/etc/passwd') FROM pg_class", UnsupportedError, "read_text"),
        ("SELECT set_config('search_path', 'x', false)", UnsupportedError, "SET search_path"),
        ("SELECT * FROM pg_stat_wal", UnsupportedError, "pg_stat_wal is not supported"),
    ],
)
def test_errors(session: Session, sql: str, error: type[Exception], said: str) -> None:
    """A wrong query, and one about what is not there, has a clear error."""
    with pytest.raises(error, match=said.replace("(", r"\(").replace(")", r"\)")):
        ask(session, sql)


def test_other_statements(session: Session) -> None:
    """A query that also reads a stored table is none about the catalog; `information_schema` stays as it was."""
    with pytest.raises(FlightLLMError, match="pg_class"):
        ask(session, "SELECT * FROM pg_class, parent")
    sql = "SELECT data_type FROM information_schema.columns WHERE table_name = 'parent' AND column_name = 'n'"
    assert column(session, sql) == ["DECIMAL(10,2)"]


def test_client_of_postgres(tmp_path: Path) -> None:
    """A client of PostgreSQL's protocol gets PostgreSQL's names of types."""
    database = open_database(tmp_path)
    own = database.session()
    own.speak_postgres()
    own.update(TABLES[0])
    sql = "SELECT data_type FROM information_schema.columns WHERE table_name = 'parent' ORDER BY ordinal_position"
    assert column(own, sql) == ["integer", "text", "numeric", "timestamp without time zone"]
    assert str(column(own, "SELECT version()")[0]).startswith("PostgreSQL 15")
    database.close()


def test_messages_keep_names(session: Session) -> None:
    """An error names columns as the statement does."""
    with pytest.raises(SqlError, match="half_full"):
        ask(session, "SELECT half_full FROM pg_class")


LONG = "repeat('x', 60000)"


@pytest.mark.parametrize(
    "sql",
    [
        "length(repeat('x', 70000))",
        "length(repeat(repeat('x', 1000), 1000))",
        "length(lpad('x', 1000000))",
        "length(rpad('x', 1000000, 'ab'))",
        "length(replace(repeat('x', 1000), 'x', repeat('y', 3000)))",
        "regexp_replace(repeat('x', 60000), 'x', 'yyyy', 'g')",
        f"length({LONG} || {LONG})",
        f"length({LONG} OPERATOR(pg_catalog.||) {LONG})",
        f"length(concat({LONG}, {LONG}))",
        f"length(concat_ws(',', {LONG}, {LONG}))",
        f"format('%s%s', {LONG}, {LONG})",
        "array_to_string(ARRAY['a', 'b'], repeat('x', 1000))",
    ],
)
def test_texts_are_limited(session: Session, sql: str) -> None:
    """A function makes no text that is longer than the limit, in constants too."""
    with pytest.raises(LimitExceededError, match="more than 65,536 characters"):
        ask(session, f"SELECT {sql}, pg_backend_pid()")


def test_all_texts_are_limited(session: Session) -> None:
    """The texts of many rows have a limit together."""
    with pytest.raises(LimitExceededError, match="too much text"):
        ask(session, "SELECT max(length(repeat('x', 50000 + i))) FROM generate_series(1, 2000) i, pg_am")


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("repeat('ab', 2) || repeat('x', 0) || repeat('y', -1)", "abab"),
        ("lpad('ab', 5, 'xy') || rpad('ab', 3) || lpad('abc', 2) || rpad('abc', -1)", "xyxabab ab"),
        ("replace('aXbX', 'X', 'yy') || replace('a', '', 'b')", "ayybyya"),
        ("regexp_replace('abab', '(a)b', '\\1\\1-', 'g')", "aa-aa-"),
        ("concat('a', NULL, 1)", "a1"),
        ("concat_ws('-', 'a', NULL, 2)", "a-2"),
        ("concat_ws('-', NULL, NULL)", ""),
        ("concat_ws(NULL, 'a')", None),
        ("'a' || NULL", None),
        ("1 || 'a'", "1a"),
        ("'pg_class'::regclass || '!'", "pg_class!"),
        ("array_to_string(ARRAY['a'] || string_to_array('b,c', ','), '+')", "a+b+c"),
        ("array_to_string(ARRAY[1, NULL], ',', '*')", "1,*"),
        ("'abc' || chr(10)", "abc\n"),
    ],
)
def test_texts(session: Session, sql: str, value: object) -> None:
    """The functions with a limit give what PostgreSQL's give."""
    assert column(session, f"SELECT {sql}, pg_backend_pid()") == [value]


def test_functions_of_the_server(session: Session) -> None:
    """Clients that list functions find the AI functions and those of users, with their arguments."""
    sql = (
        "SELECT n.nspname, p.proname, pg_catalog.pg_get_function_result(p.oid) AS result,"
        " pg_catalog.pg_get_function_arguments(p.oid) AS arguments, t.typname,"
        " obj_description(p.oid, 'pg_proc') AS told FROM pg_catalog.pg_proc p"
        " JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_type t ON t.oid = p.prorettype"
        " WHERE p.proname OPERATOR(pg_catalog.~) '^(ai_.*)$' COLLATE pg_catalog.default"
        " AND pg_catalog.pg_function_is_visible(p.oid)"
    )
    found = {row["proname"]: row for row in ask(session, sql).rows}
    assert {one.name for one in FunctionRegistry.load() if one.name.startswith("ai_")} == set(found)
    row = found["ai_filter"]
    assert (row["nspname"], row["typname"]) == ("public", "bool")
    assert row["arguments"].startswith("prompt [, field…]")
    assert row["result"].startswith("boolean")
    assert row["told"]
    assert ask(session, "SELECT 'ai_filter'::regproc AS f").rows == [{"f": "ai_filter"}]
