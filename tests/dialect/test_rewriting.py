"""Texts of other dialects become what DataFusion reads, the same rows come of them, and all else stays as it is."""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.catalog import Catalog
from flightllm.common.names import TableName
from flightllm.config import LimitsConfig
from flightllm.dialect import NameContext, rewrite
from flightllm.dialect.output_names import shown_names, with_equal_calls_apart, without_marks
from flightllm.dialect.rewriting import RULES
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit, Rewritten
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.errors import NotFoundError, SqlError, UnsupportedError
from flightllm.functions.registry import FunctionRegistry, scalars_registrar
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed
from tests.catalogs import frame, ingest
from tests.counting import steps

PAIRS = Path(__file__).parents[1] / "sql" / "pairs"


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    """Return a catalog with the tables `pt` and `s.t`."""
    catalog = Catalog(LimitsConfig())
    catalog.store.functions = scalars_registrar(FunctionRegistry({}), lambda: FakeEngine("demo", 128, FakeOptions()))
    ingest(catalog, "pt", {"i": [3, 1, 2], "s": ["c", "a", "b"]})
    catalog.store.add_schema("s")
    batch = pa.record_batch({"i": [7], "x": ["in s"]})
    catalog.ingest(TableName("s", "t"), batch.schema, [batch])
    yield catalog
    catalog.close()


def _place(catalog: Catalog, path: Sequence[str] = ("public",)) -> NameContext:
    return NameContext(
        is_table=catalog.entries.__contains__,
        columns_of=lambda name: {
            field.name: field.type for field in (catalog.table(name).schema if name in catalog.entries else ())
        },
        schemas=catalog.schemas,
        path=tuple(path),
        temporary="pg_temp_1",
        user="ann",
        version="FlightLLM 9",
    )


def _rows(catalog: Catalog, sql: str, path: Sequence[str] = ("public",)) -> tuple[list[str], list[tuple[object, ...]]]:
    found = frame(catalog, rewrite(ParsedText(sql), _place(catalog, path)).text)
    table = pa.Table.from_batches(found.collect(), found.schema())
    return shown_names(table.schema.names), [tuple(c[i].as_py() for c in table.columns) for i in range(len(table))]


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        ("SELECT pt.* FROM public.pt ORDER BY 1 LIMIT 1", ["i", "s"], [(1, "a")]),
        ("SELECT public.pt.* FROM pt ORDER BY 1 LIMIT 1", ["i", "s"], [(1, "a")]),
        ("SELECT i, i FROM pt ORDER BY i LIMIT 1", ["i", "i"], [(1, 1)]),
        ("SELECT count(*), count(*) FROM pt", ["count(*)", "count(*)"], [(3, 3)]),
        ("SELECT i AS x, s AS x FROM pt WHERE i = 1", ["x", "x"], [(1, "a")]),
        ("SELECT i x, s x, i FROM pt WHERE i = 1", ["x", "x", "i"], [(1, "a", 1)]),
        ("SELECT *, i FROM pt WHERE i = 1", ["i", "s", "i"], [(1, "a", 1)]),
        ("SELECT s, pt.*, pt.i FROM pt WHERE i = 1", ["s", "i", "s", "i"], [("a", 1, "a", 1)]),
        ("SELECT * FROM (SELECT i, i FROM pt) q WHERE i = 1", ["i", "i"], [(1, 1)]),
        ("SELECT 1, 1 UNION ALL SELECT 2, 2 ORDER BY 1", ["Int64(1)", "Int64(1)"], [(1, 1), (2, 2)]),
        ("SELECT DISTINCT upper(s), upper(s) FROM pt WHERE i = 1", ["upper(pt.s)"] * 2, [("A", "A")]),
        ("SELECT i FROM pt ORDER BY i FETCH FIRST 2 ROWS ONLY", ["i"], [(1,), (2,)]),
        ("SELECT i FROM pt ORDER BY i OFFSET 1 ROW FETCH NEXT ROW ONLY", ["i"], [(2,)]),
        ("SELECT TOP 2 i FROM pt ORDER BY i;", ["i"], [(1,), (2,)]),
        ("SELECT DISTINCT TOP (1) i FROM pt ORDER BY i DESC", ["i"], [(3,)]),
        ("SELECT max(i) FROM (SELECT TOP 2 i FROM pt ORDER BY i) q", ["max(q.i)"], [(2,)]),
        ("SELECT TOP 1 i FROM pt WHERE i = 3 UNION ALL SELECT i FROM pt ORDER BY i", ["i"], [(1,), (2,), (3,), (3,)]),
        ("SELECT 5 AS a FROM DUAL", ["a"], [(5,)]),
        ("SELECT i FROM pt SEMI JOIN s.t ON pt.i < t.i WHERE i > 2", ["i"], [(3,)]),
        ("SELECT i FROM pt ANTI JOIN s.t ON pt.i + 4 = t.i ORDER BY i", ["i"], [(1,), (2,)]),
        ("SELECT N'a' AS a", ["a"], [("a",)]),
        ("SELECT CAST(i AS NVARCHAR(10)) AS a, i::NUMBER(5) b FROM pt WHERE i = 1", ["a", "b"], [("1", 1)]),
        ("SELECT version() = 'FlightLLM 9' AS a, current_user, CURRENT_SCHEMA()", None, [(True, "ann", "public")]),
        ("SELECT count(*) AS n FROM pt WHERE s <> current_user AND current_database() = 'flightllm'", ["n"], [(3,)]),
        ("SHOW SCHEMAS", ["schema_name"], [("public",), ("s",)]),
        ("SHOW DATABASES;", ["database_name"], [("flightllm",)]),
        ("SHOW CATALOGS LIKE 'f%'", ["catalog_name"], [("flightllm",)]),
        ("DESCRIBE TABLE pt", None, [("i", "Int64", "YES"), ("s", "Utf8", "YES")]),
        ("SHOW TABLES IN s", None, [("flightllm", "s", "t", "BASE TABLE")]),
        ("SHOW TABLES FROM flightllm.s LIKE 'q%'", None, []),
        ("SHOW ALL TABLES LIKE 'schemat_'", None, [("flightllm", "information_schema", "schemata", "VIEW")]),
        ("SHOW TABLES LIKE 'schemat_'", None, []),
        ("SHOW TABLES LIKE 'p_'", None, [("flightllm", "public", "pt", "BASE TABLE")]),
        ("SHOW search_path", ["search_path"], [("public",)]),
        ("SHOW TRANSACTION ISOLATION LEVEL", ["transaction_isolation_level"], [("read committed",)]),
    ],
)
def test_texts_of_other_dialects(
    catalog: Catalog, sql: str, names: list[str] | None, rows: list[tuple[object, ...]]
) -> None:
    """Each gives the rows that its dialect says, under the names that it has there."""
    with pytest.raises(Exception):  # noqa: B017, PT011 - DataFusion's own class: the rule has a reason
        frame(catalog, sql).collect()
    found = _rows(catalog, sql)
    assert found[1] == rows
    assert names is None or found[0] == names


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i, s FROM pt",
        "SELECT ?, ? + 1, ? + 1, $1, $1",
        "SELECT a.*, b.* FROM pt a, pt b",
        "SELECT a.i, b.i FROM pt a, pt b",
        "SELECT x.* FROM public.pt AS x",
        "SELECT pt.* FROM public.pt AS pt",
        "SELECT i AS top, s AS dual FROM pt",
        'SELECT "top" FROM (SELECT 1 AS top) q',
        'SELECT "current_user" FROM (SELECT 1 AS current_user) q',
        "SELECT current_user FROM (SELECT 1 AS current_user) q",
        "SELECT q.user FROM (SELECT 1 AS user) q",
        "SELECT user FROM (SELECT 1 AS user) q",
        "SELECT 1 AS user, 2 AS version",
        "SELECT 'SELECT TOP 1 FROM dual' AS a -- FETCH FIRST 1 ROW ONLY",
        "SELECT TIMESTAMP '2020-01-01 00:00:00', CAST('x' AS VARCHAR), 1::DOUBLE PRECISION, 2::DOUBLE PRECISION",
        "SELECT CAST('2020-01-01' AS TIMESTAMP(6) WITHOUT TIME ZONE), CAST('1' AS TINYINT UNSIGNED)",
        "SELECT INTERVAL '1' day, INTERVAL '2' day",
        "SELECT now() a, now() b",
        "SELECT extract(year FROM DATE '2020-01-01')",
        "SELECT i IS DISTINCT FROM 1 FROM pt",
        "SHOW COLUMNS FROM pt",
        "DESCRIBE pt",
        "WITH dual AS (SELECT 1 AS a) SELECT a FROM dual",
        "SELECT s, count(*) n FROM pt GROUP BY s HAVING count(*) > 0 ORDER BY n FETCH_SIZE",
    ],
)
def test_what_datafusion_takes_stays(catalog: Catalog, sql: str) -> None:
    """Words of other dialects are names and texts too: what DataFusion reads is left alone, byte for byte."""
    sql = sql.removesuffix(" FETCH_SIZE")
    if "?" not in sql:
        frame(catalog, sql)
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql


def test_the_queries_of_other_tests_stay(catalog: Catalog) -> None:
    """The rules leave all queries that the tests of the SQL layer have as they are; only passes change them."""
    found = [path.read_text() for path in sorted(PAIRS.rglob("*.sql"))]
    assert found
    for sql in found:
        for statement in re.split("^-- name:.*$", sql, flags=re.MULTILINE):
            after = passed(ParsedText(statement), lambda _: {}).sql
            assert rewrite(ParsedText(statement), _place(catalog)).text == after


def _rules(sql: str, catalog: Catalog) -> list[str]:
    source = Source(ParsedText(sql), _place(catalog))
    return [rule.edits.__name__ for rule in RULES if rule.applies(source)]


@pytest.mark.parametrize(
    ("sql", "rules"),
    [
        ("SELECT s, ai_filter('Is it good?', s) FROM pt WHERE i > (1 + 2) * 3", []),
        ("SELECT extract(year FROM day) FROM pt", ["from_first", "functions"]),
        ("FROM pt", ["from_first"]),
        ("SELECT i, s FROM pt UNION ALL FROM pt", ["from_first"]),
        ("SELECT i, s AS i FROM pt", ["duplicates"]),
        ("SELECT *, i FROM pt", ["duplicates"]),
        ("SELECT pt.* FROM pt", ["stars"]),
        ("SELECT i::NUMBER FROM pt", ["types", "duplicates"]),
        ("SELECT max(i::NUMBER), 'sum' FROM pt", ["types", "duplicates", "cast_aggregates"]),
        ("SELECT min(CAST(i AS INT)) FROM pt", ["types", "duplicates", "cast_aggregates"]),
        ("SELECT N'a' FROM pt", ["national_texts"]),
        ("SELECT s -> 'a' FROM pt", ["json_operators"]),
        ("SELECT ai_filter(('Is it good? ', s)) FROM pt", ["vendor_calls"]),
        ("SELECT ai_filter(model => 'm', prompt => ('Is it good? ', s)) FROM pt", ["vendor_calls"]),
        ("SELECT ai_gen('x'):a FROM pt", ["vendor_calls"]),
        ("CREATE TEMP TABLE a AS SELECT i FROM pt", ["types", "table_names"]),
    ],
)
def test_rules_apply_where_their_trigger_is(sql: str, rules: list[str], catalog: Catalog) -> None:
    """The driver calls only the rules whose trigger is in the text."""
    assert _rules(sql, catalog) == rules


def test_rules_that_do_not_apply_change_nothing(catalog: Catalog) -> None:
    """A rule has no edits for a text without its trigger."""
    for path in sorted(PAIRS.rglob("*.sql")):
        for statement in filter(str.strip, path.read_text().split(";")):
            source = Source(ParsedText(statement), _place(catalog))
            unasked = [rule for rule in RULES if source.tokens and not rule.applies(source)]
            assert [rule.edits.__name__ for rule in unasked if list(rule.edits(source))] == []


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        *((kind, "VARCHAR") for kind in ("NVARCHAR", "nchar", "NTEXT", "CLOB", "UUID", "XML")),
        *((kind, "VARCHAR") for kind in ("CHARACTER VARYING", "VARCHAR2", "UNIQUEIDENTIFIER", "LONGTEXT")),
        *((kind, "BYTEA") for kind in ("BLOB", "VARBINARY(10)", "VARBINARY", "BINARY(3)", "BYTES", "IMAGE")),
        *((f"TIMESTAMP({n})", f"TIMESTAMP({m})") for n, m in ((1, 3), (2, 3), (4, 6), (5, 6), (7, 9), (8, 9))),
        ("TIME(3)", "TIME"),
        ("DATETIME", "TIMESTAMP(6)"),
        ("DATETIME2(7)", "TIMESTAMP(6)"),
        ("DATETIME(3)", "TIMESTAMP(3)"),
        ("SMALLDATETIME", "TIMESTAMP(0)"),
        ("DATETIMEOFFSET", "TIMESTAMPTZ"),
        ("NUMBER", "DECIMAL"),
        ("NUMBER(10, 2)", "DECIMAL(10, 2)"),
        ("MONEY", "DECIMAL(19, 4)"),
        ("INT64", "BIGINT"),
        ("BIT", "BOOLEAN"),
        ("HUGEINT", "DECIMAL(38, 0)"),
    ],
)
def test_types(catalog: Catalog, written: str, instead: str) -> None:
    """A type of another dialect stands for one of DataFusion's in CAST, after `::` and in CREATE TABLE."""
    place = _place(catalog)
    assert rewrite(ParsedText(f"SELECT CAST(NULL AS {written})"), place).text == f"SELECT CAST(NULL AS {instead})"
    assert rewrite(ParsedText(f"SELECT NULL::{written}, 1"), place).text == f"SELECT NULL::{instead}, 1"
    made = rewrite(ParsedText(f"CREATE TABLE m (a {written} NOT NULL, b INT)"), place).text
    assert made == f"CREATE TABLE m (a {instead} NOT NULL, b INT)"
    frame(catalog, f"SELECT CAST(NULL AS {instead})")


@pytest.mark.parametrize("written", ["JSON", "JSONB"])
def test_columns_of_json(catalog: Catalog, written: str) -> None:
    """A column of JSON keeps its type for the catalog."""
    sql = f"CREATE TABLE m (a {written} NOT NULL, b INT)"
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql


@pytest.mark.parametrize("written", ["INET", "ENUM('a', 'b')", "VARIANT", "nonsense", "BIT(8)", "TIME WITH TIME ZONE"])
def test_types_without_a_like(catalog: Catalog, written: str) -> None:
    """A type that nothing here is like stays, so that DataFusion rejects it by its name."""
    sql = f"SELECT CAST(NULL AS {written})"
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql


def test_a_serial_column_takes_no_null(catalog: Catalog) -> None:
    """Nothing numbers rows, so that one without a number is refused rather than kept as NULL."""
    made = rewrite(ParsedText("CREATE TABLE m (id BIGSERIAL PRIMARY KEY)"), _place(catalog)).text
    assert made == "CREATE TABLE m (id BIGINT NOT NULL PRIMARY KEY)"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT i, CAST(i AS VARCHAR), i::DOUBLE PRECISION FROM pt WHERE i = 1", (1, "1", 1.0)),
        ("SELECT CAST(pt.i AS VARCHAR), TRY_CAST(CAST(i AS DOUBLE) AS INT) FROM pt WHERE i = 1", ("1", 1)),
        ("SELECT abs(i), abs(i::NUMERIC(9, 2)) FROM pt WHERE i = 1", (1, Decimal("1.00"))),
        ("SELECT *, i::VARCHAR FROM pt WHERE i = 1", (1, "a", "1")),
        ("SELECT 1::INT, 1::VARCHAR", (1, "1")),
        ("SELECT s AS i, CAST(i AS VARCHAR) FROM pt WHERE i = 1", ("a", "1")),
        ("SELECT a.i, CAST(b.i AS VARCHAR) FROM pt a JOIN pt b ON a.i + 1 = b.i WHERE a.i = 1", (1, "2")),
    ],
)
def test_columns_beside_their_casts(catalog: Catalog, sql: str, rows: tuple[object, ...]) -> None:
    """A query can have a column and casts of it, which DataFusion gives one name; each keeps its own text as name."""
    names, found = _rows(catalog, sql)
    assert found == [rows]
    assert len(set(names)) == len(names)


def test_tables_of_columns_beside_their_casts(catalog: Catalog) -> None:
    """A table or view of them has a name for each, and columns of equal text stay as they are."""
    made = rewrite(ParsedText("CREATE VIEW v AS SELECT i, i::VARCHAR FROM pt"), _place(catalog)).text
    assert made == 'CREATE VIEW v AS SELECT i, i::VARCHAR AS "i::VARCHAR" FROM pt'
    twice = "CREATE TABLE m AS SELECT CAST(1 AS INT) AS a, i, i FROM pt"
    assert rewrite(ParsedText(twice), _place(catalog)).text == twice


@pytest.mark.parametrize(
    ("items", "row"),
    [
        ("sum(i), sum(CAST(i AS DOUBLE)), sum(i::INT)", (3, 3.0, 3)),
        ("sum(d), sum(CAST(d AS DOUBLE)), sum(CAST(q.d AS INT))", (4.0, 4.0, 4)),
        ("max(CAST(i AS VARCHAR)), max(i), min(i) + min(TRY_CAST(i AS DOUBLE))", ("2", 2, 2.0)),
        ("array_agg(i ORDER BY d DESC), array_agg(DISTINCT i::VARCHAR ORDER BY i::VARCHAR)", ([2, 1], ["1", "2"])),
        ("array_agg(i::VARCHAR ORDER BY d), array_agg(i ORDER BY d)", (["1", "2"], [1, 2])),
        ("corr(i, d), corr(i, CAST(d AS REAL)), count(DISTINCT i::INT), count(DISTINCT i)", (1.0, 1.0, 2, 2)),
        ("sum(sum(i)) OVER (), sum(sum(i::DOUBLE)) OVER ()", (3, 3.0)),
        ("array_agg(d ORDER BY d, i DESC), array_agg(d::INT ORDER BY d, i::INT DESC)", ([1.5, 2.5], [2, 2])),
        ("string_agg(d, ',' ORDER BY i, d), string_agg(d::INT, ',' ORDER BY i, d)", ("1.5,2.5", "2,2")),
        ("avg(d * 2), avg((d * 2)::FLOAT::INT)", (4.0, 4.0)),
        ("avg((d)::INT), avg((d)), avg(CAST((d) AS INT))", (2.0, 2.0, 2.0)),
        ("bool_and(NOT (i > 2)), bool_and((NOT i > 2)::BOOLEAN)", (True, True)),
        ("sum((SELECT 1)), sum((SELECT 1)::DOUBLE)", (2, 2.0)),
        ("sum(abs(i)), sum(abs(i::DOUBLE)), sum(coalesce(i::DOUBLE, 0)), sum(coalesce(i, 0))", (3, 3.0, 3.0, 3)),
        ("sum(d + 1), sum(CAST(d::DECIMAL(5, 2) AS INT) + 1)", (6.0, 7)),
        ("max(s::TEXT), max(s::VARCHAR), max(s::BYTEA)", ("b", "b", b"b")),
    ],
)
def test_aggregates_beside_those_of_casts(catalog: Catalog, items: str, row: tuple[object, ...]) -> None:
    """A query can have an aggregate of a column and of casts of it, with a name for each."""
    names, found = _rows(catalog, f"SELECT {items} FROM (VALUES (1, 1.5::DOUBLE, 'a'), (2, 2.5, 'b')) q(i, d, s)")
    assert found == [row]
    assert len(set(names)) == len(names)


def test_aggregates_of_casts_in_other_clauses(catalog: Catalog) -> None:
    """HAVING and ORDER BY can have the aggregates of the items, and others of the same name."""
    sql = (
        "SELECT s, sum(i::DOUBLE) FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) q(s, i) GROUP BY s"
        " HAVING sum(i) > 1 AND SUM(q.i::DOUBLE) < 9 ORDER BY sum(i::DOUBLE), max(i::VARCHAR), max(i)"
    )
    assert _rows(catalog, sql)[1] == [("b", 2.0), ("a", 4.0)]


def test_values_of_earlier_rows_beside_their_casts(catalog: Catalog) -> None:
    """Window functions of a column and of a cast of it stand side by side."""
    sql = "SELECT lag(i) OVER (ORDER BY i), lag(i::VARCHAR) OVER (ORDER BY i) FROM (VALUES (1), (2)) q(i)"
    assert _rows(catalog, sql)[1] == [(None, None), (1, "1")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT avg(CAST(i AS DOUBLE)), max(i), avg(s.avg(i)) FROM pt",
        "SELECT max(i), (SELECT max(i::DOUBLE) FROM pt) FROM pt",
        "SELECT max(i) FROM pt UNION ALL SELECT max(i::DOUBLE) FROM pt",
        "SELECT avg(llm('rate', s)::int) a, avg(llm('rate', s)::double) b FROM pt",
        "SELECT avg(ai_gen('rate', s)) a, avg(ai_gen('rate', s::varchar)) b FROM pt",
        "SELECT max(abs(i)) a, max(abs(i)::int) b, max(CAST(-abs(i) AS INT)) c, max(-abs(i)) d FROM pt",
        'SELECT max((abs(i))) a, max((abs(i))::int) b, max(("abs"(i))::int::double) c FROM pt',
        "SELECT grouping(i) a, grouping(i::int) b FROM pt GROUP BY ROLLUP (i, i::int)",
    ],
)
def test_other_aggregates_stay(catalog: Catalog, sql: str) -> None:
    """An aggregate of a cast stays if its SELECT has no aggregate of the same name, or its value has a call."""
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql


@pytest.mark.parametrize(
    ("items", "row"),
    [
        ("sum(d), sum(d::INT), sum(d::INT), sum(d::INT)", (4.0, 4, 4, 4)),
        ("sum(d::INT), sum(d), sum(d), SUM(d::INT)", (4, 4.0, 4.0, 4)),
        ("max(d) AS x, min(d) AS x, min(d) AS x", (2.5, 1.5, 1.5)),
    ],
)
def test_items_repeated_beside_their_casts(catalog: Catalog, items: str, row: tuple[object, ...]) -> None:
    """An item can occur several times after another cast of its value."""
    assert _rows(catalog, f"SELECT {items} FROM (VALUES (1, 1.5::DOUBLE), (2, 2.5)) q(i, d)")[1] == [row]


def test_columns_repeated_beside_their_casts(catalog: Catalog) -> None:
    """A column can stand several times beside several equal casts."""
    sql = "SELECT d, d::INT, q.d, d::INT, d FROM (VALUES (1.5::DOUBLE)) q(d)"
    names, found = _rows(catalog, sql)
    assert found == [(1.5, 2, 1.5, 2, 1.5)]
    assert shown_names(names) == ["d", "d::INT", "d", "d::INT", "d"]


@pytest.mark.parametrize("zone", ["TIMESTAMP WITH TIME ZONE", "timestamptz"])
@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_far_times_in_a_zone(catalog: Catalog, zone: str, text: str) -> None:
    """A far time with a zone is one in microseconds of UTC."""
    written = rewrite(ParsedText(f"SELECT {zone} '{text}+00' AS a"), _place(catalog)).text
    assert written == f"SELECT CAST('{text}+00' AS TIMESTAMPTZ(6)) AS a"
    assert len(_rows(catalog, written)[1]) == 1


@pytest.mark.parametrize(
    ("text", "far"),
    [
        ("1677-09-21 00:12:43.145224192", False),
        ("1677-09-21 00:12:43.145224191", True),
        ("1677-09-21", True),
        ("1677-12-31T00:00:00Z", False),
        ("2262-04-11 23:47:16.854775807", False),
        ("2262-04-11 23:47:16.854775808", True),
        ("2262-04-11 23:47:16+02", True),
        ("2262-04-11 23:47:16+00:00", False),
        ("2262-04-12", True),
    ],
)
def test_the_ends_of_nanoseconds(catalog: Catalog, text: str, far: bool) -> None:
    """Times up to the first and last nanosecond keep their nanoseconds."""
    sql = f"SELECT TIMESTAMP '{text}' AS a"
    assert (rewrite(ParsedText(sql), _place(catalog)).text != sql) == far
    assert len(_rows(catalog, sql)[1]) == 1


@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "1677-09-21 00:12:43"])
def test_far_times(catalog: Catalog, text: str) -> None:
    """A time that nanoseconds do not hold is one in microseconds, and can be compared with one in nanoseconds."""
    assert str(_rows(catalog, f"SELECT TIMESTAMP '{text}' AS a")[1][0][0]) == text
    later = text.startswith("9")
    near = "CAST('2020-01-01 00:00:00' AS TIMESTAMP(6))"
    assert _rows(catalog, f"SELECT TIMESTAMP '{text}' > {near} AS a")[1] == [(later,)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT i FROM t", [(7,)]),
        ("SELECT t.*, t.i + 1 AS j FROM t", [(7, "in s", 8)]),
        ("SELECT s.t.x FROM t WHERE flightllm.s.t.i = 7", [("in s",)]),
        ("SELECT s.t.* FROM t", [(7, "in s")]),
        ("SELECT a.i, b.i FROM t a JOIN public.pt b ON a.i > b.i WHERE b.i = 1", [(7, 1)]),
        ("SELECT i FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.i = t.i)", [(7,)]),
        ("WITH t AS (SELECT 5 AS i) SELECT i FROM t", [(5,)]),
        ("WITH q AS (SELECT i FROM t), t AS (SELECT 5 AS i) SELECT q.i, t.i FROM q, t", [(7, 5)]),
        ("SELECT * FROM (WITH t AS (SELECT 5 AS i) SELECT i FROM t) q, t", [(5, 7, "in s")]),
        ("WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t WHERE i < 2) SELECT max(i) FROM t", [(2,)]),
        ("SELECT extract(year FROM d) FROM (SELECT DATE '2020-01-01' AS d) q, t", [(2020,)]),
        ("TABLE t", None),
        ("SELECT current_schema()", [("s",)]),
    ],
)
def test_names_in_another_schema(catalog: Catalog, sql: str, rows: list[tuple[object, ...]] | None) -> None:
    """After USE s a name without a schema is one of `s`; WITH queries and names with a schema stay what they are."""
    if rows is None:
        assert rewrite(ParsedText(sql), _place(catalog, ["s"])).text == 'TABLE "flightllm"."s"."t"'
    else:
        assert _rows(catalog, sql, ["s"])[1] == rows


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("CREATE TABLE IF NOT EXISTS m (a INT)", 'CREATE TABLE IF NOT EXISTS "flightllm"."s"."m" (a INT)'),
        ("CREATE TABLE t (a INT)", 'CREATE TABLE "flightllm"."s"."t" (a INT)'),
        ("CREATE OR REPLACE VIEW v AS SELECT i FROM t", None),
        ("CREATE TABLE m (a INT REFERENCES t (i))", None),
        ("INSERT INTO t (i) VALUES (1)", 'INSERT INTO "flightllm"."s"."t" (i) VALUES (1)'),
        ("UPDATE t SET i = -t.i WHERE t.i = 7", 'UPDATE "flightllm"."s"."t" SET i = -t.i WHERE t.i = 7'),
        ("DELETE FROM t WHERE i = 1", 'DELETE FROM "flightllm"."s"."t" WHERE i = 1'),
        ("DROP TABLE IF EXISTS t", 'DROP TABLE IF EXISTS "flightllm"."s"."t"'),
        ("DESCRIBE t", 'DESCRIBE "flightllm"."s"."t"'),
        ("SHOW COLUMNS FROM t", 'SHOW COLUMNS FROM "flightllm"."s"."t"'),
        ("SHOW FULL COLUMNS FROM t", 'SHOW FULL COLUMNS FROM "flightllm"."s"."t"'),
        ("GRANT SELECT ON t TO bob", 'GRANT SELECT ON "flightllm"."s"."t" TO bob'),
        ("REVOKE SELECT ON TABLE t FROM bob", 'REVOKE SELECT ON TABLE "flightllm"."s"."t" FROM bob'),
        ("GRANT SELECT ON SCHEMA s TO bob", "GRANT SELECT ON SCHEMA s TO bob"),
        ("GRANT USAGE ON FUNCTION t TO bob", "GRANT USAGE ON FUNCTION t TO bob"),
        ("REVOKE USAGE ON FILTER t FROM bob", "REVOKE USAGE ON FILTER t FROM bob"),
        ("GRANT SELECT ON filter TO bob", 'GRANT SELECT ON "flightllm"."s"."filter" TO bob'),
        ('REVOKE SELECT ON "model" FROM bob', 'REVOKE SELECT ON "flightllm"."s"."model" FROM bob'),
        ("GRANT SELECT ON TABLE prompt TO bob", 'GRANT SELECT ON TABLE "flightllm"."s"."prompt" TO bob'),
        ("GRANT SELECT ON function.t TO bob", "GRANT SELECT ON function.t TO bob"),
        ("DROP COLUMN MASK ON filter(x) FROM bob", 'DROP COLUMN MASK ON "flightllm"."s"."filter"(x) FROM bob'),
        ("CREATE ROW FILTER ON t TO bob AS x = current_user", None),
        ("CREATE VECTOR INDEX v ON t(x)", 'CREATE VECTOR INDEX v ON "flightllm"."s"."t"(x)'),
        ("CREATE SCHEMA t", "CREATE SCHEMA t"),
        ("MERGE INTO t USING pt ON t.i = pt.i WHEN MATCHED THEN DELETE", None),
        ("DELETE FROM t USING pt WHERE t.i = pt.i", None),
        ("WITH c AS (SELECT 1) DELETE FROM t USING pt, c WHERE t.i = pt.i", None),
        ("DROP TABLE t, pt, n", 'DROP TABLE "flightllm"."s"."t", "flightllm"."public"."pt", "flightllm"."s"."n"'),
        ("DROP VIEW IF EXISTS public.a, t", 'DROP VIEW IF EXISTS public.a, "flightllm"."s"."t"'),
        ("DROP SCHEMA t", "DROP SCHEMA t"),
    ],
)
def test_targets_in_another_schema(catalog: Catalog, sql: str, text: str | None) -> None:
    """What a statement makes, changes or drops is in the session's schema; only there what it reads gets an alias."""
    found = rewrite(ParsedText(sql), _place(catalog, ["s", "public"])).text
    assert text is None or found == text
    others = {
        "CREATE OR": 'CREATE OR REPLACE VIEW "flightllm"."s"."v" AS SELECT i FROM "flightllm"."s"."t" AS "t"',
        "CREATE TA": 'CREATE TABLE "flightllm"."s"."m" (a INT REFERENCES "flightllm"."s"."t" (i))',
        "CREATE RO": 'CREATE ROW FILTER ON "flightllm"."s"."t" TO bob AS x = current_user',
        "MERGE INT": 'MERGE INTO "flightllm"."s"."t" USING "flightllm"."public"."pt" AS "pt" ON t.i = pt.i WHEN',
        "DELETE FR": 'DELETE FROM "flightllm"."s"."t" USING "flightllm"."public"."pt" AS "pt" WHERE t.i = pt.i',
        "WITH c AS": 'WITH c AS (SELECT 1) DELETE FROM "flightllm"."s"."t" AS "t" USING "flightllm"."public"."pt"',
    }
    assert text is not None or found.startswith(others[sql[:9]])


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SHOW TABLES IN nope", NotFoundError, "no schema 'nope'"),
        ("CREATE VIEW v AS SELECT current_user AS u", UnsupportedError, "current_user in a view"),
        ("CREATE TEMP TABLE s.m (a INT)", SqlError, "has no schema"),
        ("SELECT 'open", SqlError, "1:8"),
    ],
)
def test_refusals(catalog: Catalog, sql: str, error: type[Exception], said: str) -> None:
    """What would mean something else than it says is refused."""
    with pytest.raises(error, match=said):
        rewrite(ParsedText(sql), _place(catalog))


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT TOP 2 CAST(i AS NVARCHAR(10)), nope(i)\nFROM pt", "nope"),
        ("SELECT i, i, N'ä',\n CAST(s AS NTEXT) FROM pt WHERE )", ")"),
        ("SELECT t.i::NUMBER(9),\n current_user FROM t WHERE (((", "((("),
    ],
)
def test_places_are_those_of_the_sent_text(catalog: Catalog, sql: str, wrong: str) -> None:
    """An offset of the text that is read is one of the text as it was sent."""
    found = (
        rewrite(ParsedText(sql), _place(catalog, ["s", "public"]))
        if wrong != ")"
        else rewrite(ParsedText(sql[:-1]), _place(catalog))
    )
    text = found.text + (")" if wrong == ")" else "")
    assert found.text != sql
    assert found.sent_at(text.index(wrong)) == sql.index(wrong)
    line, column = text[: text.index(wrong)].count("\n") + 1, text.index(wrong) - text.rfind("\n", 0, text.index(wrong))
    there = sql.index(wrong) - sql.rfind("\n", 0, sql.index(wrong))
    if wrong != ")":
        assert found.said(f"oh at Line: {line}, Column: {column}") == f"oh at Line: {line}, Column: {there}"
        assert found.said(f"f at {line}:{column} is wrong") == f"f at {line}:{there} is wrong"


def test_marks_are_not_shown() -> None:
    """A column that had to be renamed has its name in results and errors."""
    mark = "\ufdd1"
    assert shown_names(["a", f"{mark}1{mark}x", f"{mark}{mark}b", f"{mark}9{mark}c"]) == ["a", "a", "b", "c"]
    assert without_marks(f"No field named '{mark}2{mark}i'") == "No field named 'i'"


@pytest.mark.parametrize("sql", ["", "  ", "-- a comment", "/* one */ -- and another"])
def test_no_statement(catalog: Catalog, sql: str) -> None:
    """A text without a statement stays as it is, whatever schema the session uses."""
    assert rewrite(ParsedText(sql), _place(catalog, ("s", "public"))).text == sql


@pytest.mark.parametrize(
    ("written", "stubbed", "named"),
    [
        ("SELECT f(a), g(a) FROM t", "SELECT s(a), s(a) FROM t", 'SELECT s(a), s(a) AS "¤¤g(a)" FROM t'),
        ("SELECT f(a) AS x, g(a), *", "SELECT s(a) AS x, s(a), *", "SELECT s(a) AS x, s(a), *"),
        (
            "SELECT 1 + f(a), 1 + g(a) UNION SELECT f(a), h(a)",
            "SELECT 1 + s(a), 1 + s(a) UNION SELECT s(a), r(a)",
            'SELECT 1 + s(a), 1 + s(a) AS "¤¤1 + g(a)" UNION SELECT s(a), r(a)',
        ),
    ],
)
def test_equal_calls(written: str, stubbed: str, named: str) -> None:
    """Items that became one text get the names that they were written with; one with an alias keeps that."""
    assert with_equal_calls_apart(written, stubbed).replace("\ufdd1", "¤") == named


def test_changes_do_not_overlap() -> None:
    """Two changes of one place are an error there, never a text of halves; an insertion beside a change is none."""
    whole = Rewritten("SELECT\nabc", "SELECT\nabc")
    assert whole.with_edits([Edit(7, 9, "x"), Edit(7, 7, "("), Edit(9, 9, ")")]).text == "SELECT\n(x)c"
    with pytest.raises(SqlError, match="at 2:2 "):
        whole.with_edits([Edit(7, 9, "x"), Edit(8, 10, "y")])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TIMESTAMP '2024-01-02 10:05'",
        "SELECT TIMESTAMP '2024-01-02T10:05'",
        "SELECT TIMESTAMP '2024-01-02 10:05Z'",
        "SELECT '2024-01-02 10:05'::timestamp",
        "SELECT CAST('2024-01-02 10:05+02:00' AS TIMESTAMP)",
        "SELECT {ts '2024-01-02 10:05'}",
    ],
)
def test_times_without_seconds(catalog: Catalog, sql: str) -> None:
    """The literal of a timestamp needs no seconds."""
    with pytest.raises(Exception, match="error parsing time"):
        frame(catalog, sql).collect()
    [(value,)] = _rows(catalog, sql)[1]
    assert f"{value:%Y-%m-%d %H:%M:%S}" == "2024-01-02 10:05:00"


def test_far_times_without_seconds(catalog: Catalog) -> None:
    """A far year needs no seconds either; a text and an alias stay as they are."""
    assert _rows(catalog, "SELECT TIMESTAMP '0001-01-02 10:05' < TIMESTAMP '0001-01-02 10:06'")[1] == [(True,)]
    sql = "SELECT '2024-01-02 10:05' AS timestamp, TIMESTAMP '2024-01-02 10:05:00'"
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda n: f"VALUES {', '.join(['(localtimestamp)'] * n)}", id="localtimestamp"),
        pytest.param(lambda n: f"VALUES {', '.join(['(f((LOCALTIMESTAMP)))'] * n)}", id="nested localtimestamp"),
        pytest.param(lambda n: f"VALUES {', '.join(['(current_user)'] * n)}", id="current_user"),
        pytest.param(lambda n: f"SELECT {', '.join(['current_user'] * n)}", id="items of current_user"),
        pytest.param(
            lambda n: f"SELECT {', '.join(['current_user'] * n)} FROM {', '.join(f'pt AS p{k}' for k in range(n))}",
            id="items of current_user over tables",
        ),
        pytest.param(lambda n: f"SELECT {', '.join(['i'] * n)} FROM pt", id="equal items"),
        pytest.param(lambda n: f"SELECT {', '.join(f'i::VARCHAR({k})' for k in range(n))} FROM pt", id="casts"),
        pytest.param(lambda n: f"SELECT {', '.join(['* EXCLUDE (i)'] * n)} FROM pt", id="stars"),
        pytest.param(lambda n: f"SELECT {', '.join(['pt.*, i::INT'] * n)} FROM pt, pt AS b", id="stars of a table"),
        pytest.param(
            lambda n: f"SELECT {', '.join(f'sum(i::VARCHAR({k}))' for k in range(n))} FROM pt",
            id="sums",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda n: f"VALUES {', '.join(['((SELECT TOP 1 i FROM pt))'] * n)}", id="top"),
        pytest.param(lambda n: " UNION ".join(["SELECT TOP 1 i FROM pt"] * n), id="union of top"),
        pytest.param(lambda n: " UNION ".join(["(FROM pt)"] * n), id="from"),
        pytest.param(lambda n: " UNION ".join(["SELECT sum(i), sum(i::INT) FROM pt"] * n), id="union of sums"),
    ],
)
def test_steps_grow_with_the_text(catalog: Catalog, text: Callable[[int], str]) -> None:
    """A text of four times the length takes about four times the steps, and no rewritten text is far longer."""

    def counted(count: int) -> tuple[int, str]:
        rewritten = list[str]()
        taken = steps(lambda: rewritten.append(rewrite(ParsedText(text(count)), _place(catalog)).text))
        return taken, rewritten[0]

    counted(1)  # what is imported and kept once
    taken, rewritten = counted(400)
    assert taken < 5 * counted(100)[0]
    assert len(rewritten) < 10 * len(text(400))


def test_aggregates_of_many_casts(catalog: Catalog) -> None:
    """One query can have an aggregate of very many casts of a column, and NULLs stay NULLs in all of them."""
    sums = ", ".join(f"sum(i::DECIMAL({10 + n}, {n % 9}))" for n in range(28))
    assert _rows(catalog, f"SELECT {sums}, count(i::INT), count(i::TEXT) FROM pt")[1] == [(Decimal(6),) * 28 + (3, 3)]
    counts = ", ".join(f"count(nullif(i, 1)::VARCHAR({n})), max(s::VARCHAR({n}))" for n in range(1, 100))
    assert _rows(catalog, f"SELECT {counts} FROM pt")[1] == [(2, "c") * 99]


def test_alias_after_a_struct(catalog: Catalog) -> None:
    """No expression begins after a struct, so a name there is an alias."""
    sql = "SELECT {'a': 1} localtimestamp FROM pt"
    assert rewrite(ParsedText(sql), _place(catalog)).text == sql
