"""What a prepared statement says of its parameters and columns before it gets values."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from tests.databases import open_database, rows

TABLE = "CREATE TABLE t (a INT, b VARCHAR, d DATE, x DECIMAL(10, 2), ts TIMESTAMP, u BIGINT UNSIGNED)"
INT, TEXT, DAY, MONEY = pa.int32(), pa.string(), pa.date32(), pa.decimal128(10, 2)
WHEN, SPAN = pa.timestamp("ns"), pa.month_day_nano_interval()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Open a session over one table."""
    database = open_database(Path(tmp_path_factory.mktemp("describing")))
    session = database.session()
    session.update(TABLE)
    session.update("CREATE TABLE needed (a INT NOT NULL, b VARCHAR NOT NULL)")
    return session


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT a FROM t WHERE a > ? AND b = ?", [INT, TEXT]),
        ("SELECT a FROM t WHERE ts > $2 AND d = $1", [DAY, WHEN]),
        ("SELECT a FROM t WHERE x BETWEEN ? AND ? OR u IN (?,?)", [MONEY, MONEY, pa.uint64(), pa.uint64()]),
        ("SELECT a FROM t WHERE a = (SELECT max(a) FROM t WHERE b = ?)", [TEXT]),
        ("SELECT * FROM t LIMIT ? OFFSET ?", [pa.int64(), pa.int64()]),
        ("SELECT ?", [TEXT]),
        ("EXPLAIN SELECT a FROM t WHERE a = ?", [INT]),
        ("SELECT a FROM t WHERE ai_filter('Is {b} good?', b) AND a > ?", [INT]),
        ("SELECT ai_gen(?, b) FROM t", [TEXT]),
        ("SELECT ai_classify(b, ?) FROM t", [TEXT]),
        ("INSERT INTO t VALUES (?,?,?,?,?,?)", [INT, TEXT, DAY, MONEY, WHEN, pa.uint64()]),
        ("INSERT INTO t (b,a) VALUES ($1,$2)", [TEXT, INT]),
        ("UPDATE t SET b = ? WHERE a = ?", [TEXT, INT]),
        ("DELETE FROM t WHERE d < ?", [DAY]),
        ("CREATE TABLE z AS SELECT * FROM t WHERE a = ?", [INT]),
        ("SELECT ts + ? FROM t", [SPAN]),
        ("SELECT ?, ts + ? FROM t WHERE a = ?", [TEXT, SPAN, INT]),
        ("SELECT a FROM t WHERE a > $2 AND ts > now() - $1", [SPAN, INT]),
        ("SELECT a FROM t WHERE ts + ? > ?", [SPAN, WHEN]),
        ("SELECT ts - ? FROM t WHERE ai_filter('Is {b} good?', b)", [WHEN]),
        ("SELECT ai_gen('Why?', b), ts + ? FROM t WHERE b = ?", [SPAN, TEXT]),
    ],
)
def test_types_of_parameters(session: Session, sql: str, types: list[pa.DataType]) -> None:
    """A parameter has the type that its place asks for, text where any would do."""
    assert session.describe(sql).parameters.types == types


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO t (a, nope) VALUES (?, ?)", "nope"),
        ("INSERT INTO t (a) VALUES (1, 2)", "row 1 of VALUES has 2 values"),
        ("INSERT INTO missing VALUES (?)", "missing"),
        ("INSERT INTO t (a) SELECT nope FROM t WHERE a = ?", "nope"),
        ("INSERT INTO t (a, b) SELECT ai_gen('x', b) FROM t", "names 2 columns, but each row has 1 values"),
        ("INSERT INTO system.queries VALUES (?)", "queries"),
        ("UPDATE t SET nope = ?", "nope"),
        ("UPDATE t SET a = 1 WHERE nope = ?", "nope"),
        ("UPDATE t SET b = ai_gen('x', nope)", "nope"),
        ("UPDATE t SET b = ai_gen('x', b) RETURNING nope", "nope"),
        ("DELETE FROM t USING missing", "missing"),
        ("MERGE INTO t USING t AS s ON s.a = t.a WHEN MATCHED THEN UPDATE SET nope = 1", "no column 'nope'"),
        ("INSERT INTO t (a) VALUES (1) RETURNING nope", "nope"),
        ("DELETE FROM t WHERE nope = ?", "nope"),
        ("DELETE FROM missing", "missing"),
        ("DROP TABLE missing", "missing"),
        ("DROP TABLE t, missing", "missing"),
        ("DROP VIEW t", "write DROP TABLE"),
        ("CREATE TABLE t (a INT)", "exists"),
        ("CREATE TABLE z (a INT CHECK (a > 1))", "CHECK"),
        ("CREATE TABLE t AS SELECT 1 AS a", "exists"),
        ("CREATE TABLE z AS SELECT nope FROM t WHERE a = ?", "nope"),
        ("USE nope", "no schema 'nope'"),
        ("SET flightllm.nope = 1", "no setting"),
        ("SET flightllm.cache = 'perhaps'", "cannot be"),
        ("RESET flightllm.nope", "no setting"),
    ],
)
def test_wrong_changes(session: Session, sql: str, message: str) -> None:
    """What is wrong with a change whatever its values are is told when it is prepared, as when it runs."""
    with pytest.raises(FlightLLMError, match=message) as told:
        session.describe(sql)
    if "?" not in sql:
        with pytest.raises(type(told.value), match=re.escape(str(told.value))):
            session.update(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (?, upper(?), ?, ? + 1, ?, ?)",
        "INSERT INTO t (d, a) VALUES (CAST(? AS DATE), CAST(? AS INT))",
        "INSERT INTO needed (a, b) VALUES (?, ?)",
        "INSERT INTO needed SELECT CAST(? AS INT), arrow_cast(?, 'Utf8')",
        "INSERT INTO t (b) SELECT ai_gen(?, b) FROM t WHERE a < ? LIMIT ?",
        "UPDATE t SET b = ?, d = CAST(? AS DATE) WHERE a = CAST(? AS INT) AND ts > ?",
        "UPDATE t AS x SET a = x.a + ?",
        "DELETE FROM t AS x WHERE x.b LIKE ?",
        "CREATE OR REPLACE TABLE t AS SELECT CAST(? AS DATE) AS d",
        "CREATE TABLE IF NOT EXISTS t AS SELECT nope",
        "DROP TABLE IF EXISTS missing",
        "DROP TABLE t",
        "SET flightllm.cache = 'off'",
    ],
)
def test_changes_that_may_run(session: Session, sql: str) -> None:
    """Preparing a change does nothing, and lets pass what some values make right."""
    assert session.describe(sql).is_update
    assert rows(session, "SELECT a, b, d FROM t") == []
    assert session.get_options()["cache"] == "on"


@pytest.mark.slow
def test_many_parameters_as_columns(session: Session) -> None:
    """Bare parameters are columns of their own, however many there are; EXPLAIN and subqueries of them too."""
    marks = ", ".join("?" * 900)
    assert session.describe(f"SELECT {marks}").schema == pa.schema([(f"${i + 1}", TEXT) for i in range(900)])
    assert session.describe("SELECT * FROM (SELECT ?, ?, ?, ?)").schema.names == ["$1", "$2", "$3", "$4"]


def test_columns_are_named_for_any_value(session: Session) -> None:
    """A column computed from a parameter is not named after a stand-in for its value."""
    schema = session.describe("SELECT ? + 1, a, ai_gen(?, b) FROM t").schema
    assert schema.names == ["$1 + 1", "a", "ai_gen($2, b)"]
    assert schema.types == [pa.int64(), INT, TEXT]
    assert session.describe("SELECT ? + ts, d + ? FROM t").schema == pa.schema([("$1 + ts", WHEN), ("d + $2", DAY)])


def test_columns_of_any_type(session: Session) -> None:
    """A column that is a parameter of any type has the type that is asked for; NULL stays one."""
    schema = session.describe("SELECT ? AS x, NULL AS y, coalesce(?, ?) AS z, coalesce(a, ?) AS a FROM t").schema
    assert schema.types == [TEXT, pa.null(), TEXT, INT]


@pytest.mark.parametrize(
    ("sql", "value", "name", "kind"),
    [
        ("SELECT ? AS x", 1, "x", pa.int64()),
        ("SELECT a + ? FROM t", 1, "a + $1", pa.int64()),
        ("SELECT coalesce(a, ?) FROM t", 1, "coalesce(a, $1)", pa.int64()),
        ("SELECT x + ? FROM t", 1, "x + $1", pa.decimal128(23, 2)),
        ("SELECT upper(?)", "x", "upper($1)", TEXT),
        ("SELECT ai_gen('Why?', b), ? AS g FROM t", 1.5, "g", pa.float64()),
    ],
)
def test_values_that_are_bound(session: Session, sql: str, value: object, name: str, kind: pa.DataType) -> None:
    """With a row of values a statement is described as it will run, under the names that hold for any values."""
    row = pa.record_batch({"0": [value]})
    assert session.describe(sql, row).schema.field(name).type == kind == session.execute(sql, row).schema.types[-1]


def test_a_bound_value_is_checked(session: Session) -> None:
    """A value that does not fit its place is an error, although one of another type would."""
    with pytest.raises(SqlError, match=r"Int32.*Struct"):
        session.describe("SELECT a + ? FROM t", pa.record_batch({"0": [{"x": 1}]}))


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT CAST(? AS BIGINT)", ["int64"]),
        ("SELECT ?::DATE, CAST(? AS DECIMAL(9, 2))", ["date32[day]", "decimal128(9, 2)"]),
        ("SELECT substr(s, ?), lpad(s, ?, ?) FROM kinds", ["int64", "int64", "string"]),
        ("SELECT coalesce(?, 1), nullif(?, a), greatest(d, ?) FROM kinds", ["int64", "int32", "timestamp[ns]"]),
        ("SELECT ? + 1, 2.5 * ?, -? FROM kinds", ["int64", "double", "string"]),
        ("SELECT a FROM kinds LIMIT ? OFFSET ?", ["int64", "int64"]),
        ("SELECT a FROM kinds WHERE s IN (?, ?) OR a IN (?, ?)", ["string", "string", "int32", "int32"]),
        ("SELECT a FROM kinds WHERE d BETWEEN ? AND ?", ["timestamp[ns]", "timestamp[ns]"]),
        ("SELECT CASE WHEN ? THEN ? ELSE e END FROM kinds", ["bool", "decimal128(10, 2)"]),
        ("SELECT round(e, ?), l[?], date_trunc(?, d) FROM kinds", ["int32", "int64", "string"]),
        ("SELECT a FROM kinds WHERE ai_filter('Is {s} good?', s) AND a > ? + 1", ["int64"]),
        ("INSERT INTO kinds (a, d) VALUES (?, ?)", ["int32", "timestamp[ns]"]),
        ("INSERT INTO kinds (s) VALUES (substr(?, ?))", ["string", "int64"]),
        ("UPDATE kinds SET e = ? WHERE s = substr('abc', ?)", ["decimal128(10, 2)", "int64"]),
        ("DELETE FROM kinds WHERE a > coalesce(?, 3)", ["int64"]),
        ("SELECT $2 + 1, $1", ["string", "int64"]),
        ("SELECT :n + 1, :s || s, :n FROM kinds", ["int64", "string"]),
        ("EXPLAIN SELECT ? + 1", ["int64"]),
        ("SELECT ?", ["string"]),
    ],
)
def test_types_of_casts(session: Session, sql: str, kinds: list[str]) -> None:
    """A parameter has the type that DataFusion casts it to in its place; text where any would do."""
    session.update("CREATE TABLE IF NOT EXISTS kinds (a INT, s VARCHAR, d TIMESTAMP, e DECIMAL(10, 2), l BIGINT[])")
    assert [str(kind) for kind in session.describe(sql).parameters.types] == kinds
