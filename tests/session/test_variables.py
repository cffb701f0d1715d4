"""Variables of a session in Snowflake's dialect: SET, UNSET, $x and IDENTIFIER."""

from collections.abc import Iterator
from datetime import date
from math import isnan
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import CancelledError, InvalidInputError, SqlError, UnsupportedError
from flightllm.observe.query_record import CancelToken
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.session.variables import Assignment, read_assignment
from tests.databases import ask, small_database

_SNOWFLAKE = {"dialect": "snowflake"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database for all tests."""
    database = small_database(tmp_path_factory.mktemp("variables"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a new session, with a new table."""
    session = database.session()
    session.update("CREATE OR REPLACE TABLE emp AS SELECT * FROM (VALUES (1, 'Ann'), (2, 'Bob')) AS v(id, name)")
    return session


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ask(session, sql, dialect="snowflake").rows]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5),
        ("-5", -5),
        ("'it''s'", "it's"),
        ("'a\\\\b'", "a\\b"),
        ("(SELECT max(id) FROM emp)", 2),
        ("NULL", None),
        ("TRUE", True),
        ("'2024-01-05'::DATE", date(2024, 1, 5)),
    ],
)
def test_value(session: Session, value: str, expected: object) -> None:
    """A variable keeps the value of an expression, and stands for it in a query."""
    session.update(f"SET x = {value};", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT $X AS a") == [(expected,)]


def test_several(session: Session) -> None:
    """One statement sets several variables; a change of rows and a condition read them."""
    session.update("SET (a, b) = (SELECT 3, 'Cat')", settings=_SNOWFLAKE)
    session.update("INSERT INTO emp VALUES ($a, $b)", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT name, '$a' FROM emp WHERE id = $a") == [("Cat", "$a")]
    assert session.state() is None


def test_identifier(session: Session) -> None:
    """IDENTIFIER names a table or a column by a text or by a variable."""
    session.update("SET (tab, col) = ('emp', 'name')", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT IDENTIFIER($col) AS v FROM IDENTIFIER($tab) ORDER BY 1") == [("Ann",), ("Bob",)]
    assert _rows(session, "SELECT count(*) AS n FROM IDENTIFIER('emp')") == [(2,)]
    with pytest.raises(SqlError, match="write SET other = 'name'"):
        _rows(session, "SELECT * FROM IDENTIFIER($other)")


def test_unset(session: Session) -> None:
    """UNSET forgets a variable, and a new value takes the place of the old one, also for a plan that was made."""
    session.update("SET x = 1", settings=_SNOWFLAKE)
    described = session.describe("SELECT $x AS a", settings=_SNOWFLAKE)
    session.update("SET x = 2", settings=_SNOWFLAKE)
    assert described.plan is not None
    assert session.execute_planned(described.plan, "SELECT $x AS a", _SNOWFLAKE) is None
    session.update("UNSET x", settings=_SNOWFLAKE)
    with pytest.raises(SqlError, match="write SET x = 'text' before"):
        _rows(session, "SELECT $x AS a")
    with pytest.raises(SqlError, match="write SET x = 'text' before"):
        session.update("DELETE FROM emp WHERE id = $x", settings=_SNOWFLAKE)


def test_errors(session: Session) -> None:
    """A variable needs one short value, and the server's own dialect has no variables."""
    with pytest.raises(InvalidInputError, match="write one value for each"):
        session.update("SET x = 1, 2", settings=_SNOWFLAKE)
    with pytest.raises(InvalidInputError, match="at most 256 bytes"):
        session.update("SET x = repeat('a', 300)", settings=_SNOWFLAKE)
    with pytest.raises(SqlError, match="write a value for each variable"):
        session.update("SET (x, y) = 1", settings=_SNOWFLAKE)
    with pytest.raises(UnsupportedError, match="own settings"):
        session.update("SET x = 1")
    assert session.is_update("SET x = 1", settings=_SNOWFLAKE)


def test_parameters_of_clients(session: Session) -> None:
    """SET of a client's parameter keeps its check and makes no variable, and a number is no name."""
    for sql in ("SET timezone = 'UTC'", "SET statement_timeout = 0", "SET datestyle = 'ISO'"):
        session.update(sql, settings=_SNOWFLAKE)
    assert session.state() is not None
    with pytest.raises(UnsupportedError, match="timezone cannot be"):
        session.update("SET timezone = 'Europe/Paris'", settings=_SNOWFLAKE)
    with pytest.raises(UnsupportedError, match=r"SET flightllm\.timeout = 5"):
        session.update("SET statement_timeout = 100", settings=_SNOWFLAKE)
    with pytest.raises(SqlError, match="a statement of its own"):
        session.update("SET (a, timezone) = (1, 'UTC')", settings=_SNOWFLAKE)
    with pytest.raises(UnsupportedError):
        session.update("SET 1 = 5", settings=_SNOWFLAKE)


def test_bound_name(session: Session) -> None:
    """A value that a client binds by name comes before a variable of this name; SET takes bound values too."""
    session.update("SET id = 1", settings=_SNOWFLAKE)
    bound = pa.record_batch({"id": [2]})
    found = session.execute("SELECT name AS n FROM emp WHERE id = $id", bound, _SNOWFLAKE)
    assert pa.Table.from_batches(list(found.batches), found.schema).to_pylist() == [{"n": "Bob"}]
    session.update("SET y = ?", pa.table({"a": [7]}), _SNOWFLAKE)
    assert _rows(session, "SELECT $y + 1 AS a") == [(8,)]


@pytest.mark.parametrize("name", ["emp WHERE id = 1", "emp p, emp q", "(SELECT 1)", "emp; SELECT 1", "", "emp."])
def test_identifier_is_one_name(session: Session, name: str) -> None:
    """IDENTIFIER takes one name, and no other SQL."""
    with pytest.raises(SqlError, match="IDENTIFIER needs one name"):
        _rows(session, f"SELECT * FROM IDENTIFIER('{name}')")


def test_comment_in_a_name(session: Session) -> None:
    """A comment is no part of the name that IDENTIFIER takes, nor does it hide the rest of the query."""
    assert _rows(session, "SELECT count(*) AS n FROM IDENTIFIER('emp -- x') WHERE id = 1") == [(1,)]


def test_identifier_of_names(session: Session) -> None:
    """IDENTIFIER takes a qualified name, a name in quotes, and a keyword, which is a name then."""
    assert _rows(session, "SELECT count(*) AS n FROM IDENTIFIER('public.emp')") == [(2,)]
    assert _rows(session, """SELECT count(*) AS n FROM IDENTIFIER('"emp"')""") == [(2,)]
    with pytest.raises(SqlError, match="current_date"):
        _rows(session, "SELECT IDENTIFIER('current_date') AS a FROM emp")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'1.5'::DECIMAL(20, 10)", pa.decimal128(20, 10)),
        ("'0.1'::DOUBLE", pa.float64()),
        ("CAST(NULL AS VARCHAR)", pa.string()),
        ("'2024-01-02 03:04:05.678+02:00'::TIMESTAMP_TZ", pa.timestamp("ns", "UTC")),
        ("'2024-01-02 03:04:05.678'::TIMESTAMP", pa.timestamp("ns")),
        ("'03:04:05'::TIME", pa.time64("ns")),
        ("-9223372036854775807", pa.int64()),
    ],
)
def test_type(session: Session, value: str, kind: pa.DataType) -> None:
    """A variable keeps the type of its value."""
    session.update(f"SET x = {value}", settings=_SNOWFLAKE)
    found = ask(session, "SELECT $x AS a", dialect="snowflake").table
    assert found.schema.field("a").type == kind
    assert found.to_pylist() == ask(session, f"SELECT {value} AS a", dialect="snowflake").table.to_pylist()


def test_not_a_number(session: Session) -> None:
    """A variable keeps NaN, which is a number of its type."""
    session.update("SET x = 'nan'::DOUBLE", settings=_SNOWFLAKE)
    ((value,),) = _rows(session, "SELECT $x AS a")
    assert isinstance(value, float)
    assert isnan(value)


def test_many_comments() -> None:
    """The begin of a statement is read in one pass, however many comments and spaces it has."""
    assert read_assignment("/*a*/ " * 2_000 + "SELECT 1") is None
    assert read_assignment("SET" + " " * 20_000 + "x") is None
    assert read_assignment("/*a*/ -- b\n SET /*c*/ x = 1 /*d*/ ;") == Assignment(("x",), "SELECT 1")


def test_bound_value(session: Session) -> None:
    """SET takes the value that a client binds."""
    session.update("SET x = ?", pa.table({"a": [7]}), _SNOWFLAKE)
    session.update("SET (y, z) = ($1, $2)", pa.table({"a": [8], "b": ["q"]}), _SNOWFLAKE)
    assert _rows(session, "SELECT $x AS a, $y AS b, $z AS c") == [(7, 8, "q")]


def test_name_of_column(session: Session) -> None:
    """A column that is a variable alone has the variable's name in capitals."""
    session.update("SET x = 5", settings=_SNOWFLAKE)
    for text in ("SELECT $x", "SELECT DISTINCT $X FROM emp", 'SELECT "$X" FROM (SELECT $x)'):
        assert ask(session, text, dialect="snowflake").rows == [{"$X": 5}], text
    assert ask(session, "SELECT $x AS a, $x + 1 AS b", dialect="snowflake").rows == [{"a": 5, "b": 6}]


def test_stops(session: Session) -> None:
    """A client can stop the query of a SET, which then changes no variable."""
    session.update("SET x = 1", settings=_SNOWFLAKE)
    stop = CancelToken()
    stop.set()
    with pytest.raises(CancelledError):
        session.update("SET x = (SELECT count(*) FROM emp)", settings=_SNOWFLAKE, cancelled=stop)
    assert _rows(session, "SELECT $x AS a") == [(1,)]
