"""Variables of a session in BigQuery's dialect: DECLARE, SET, @x and x."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError, InvalidInputError, SqlError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, small_database

_BIGQUERY = {"dialect": "bigquery"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database for all tests."""
    database = small_database(tmp_path_factory.mktemp("script"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a new session, with a new table."""
    session = database.session()
    session.update("CREATE OR REPLACE TABLE emp AS SELECT * FROM (VALUES (1, 'Ann'), (2, 'Bob')) AS v(id, name)")
    return session


def _do(session: Session, *statements: str) -> None:
    for sql in statements:
        session.update(sql, settings=_BIGQUERY)


def _rows(session: Session, sql: str) -> list[dict[str, Any]]:
    return ask(session, sql, dialect="bigquery").rows


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("INT64 DEFAULT 3", 3),
        ("INT64 DEFAULT -3", -3),
        ("INT64", None),
        ("FLOAT64 DEFAULT 3", 3.0),
        ("STRING DEFAULT 'it\\'s \\\\ \"x\"'", 'it\'s \\ "x"'),
        ("DATE DEFAULT '2024-01-05'", date(2024, 1, 5)),
        ("TIMESTAMP DEFAULT '2024-01-05 10:00:00+02'", datetime(2024, 1, 5, 8, tzinfo=UTC)),
        ("DEFAULT (SELECT MAX(id) FROM emp)", 2),
        ("BOOL DEFAULT TRUE", True),
        ("NUMERIC DEFAULT -1.5", Decimal("-1.5")),
        ("DATETIME DEFAULT DATE '2024-01-05'", datetime(2024, 1, 5)),  # noqa: DTZ001 - no zone
    ],
)
def test_value(session: Session, declared: str, expected: object) -> None:
    """A variable has the value of its DECLARE, and stands for it in a query."""
    _do(session, f"DECLARE x {declared};")
    assert _rows(session, "SELECT @x AS a") == [{"a": expected}]
    assert _rows(session, "SELECT x") == [{"x": expected}]


def test_set(session: Session) -> None:
    """SET changes values, also from other variables; queries and changes of rows read them."""
    _do(session, "DECLARE a, b INT64 DEFAULT 1", "SET a = 2", "SET (a, b) = (a + 3, 7)", "SET b = b + a")
    assert _rows(session, "SELECT a, b") == [{"a": 5, "b": 12}]
    assert _rows(session, "SELECT name FROM emp WHERE id = @a - 4") == [{"name": "Ann"}]
    _do(session, "UPDATE emp SET name = 'Eve' WHERE id = @a - 3")
    assert _rows(session, "SELECT name FROM emp ORDER BY id") == [{"name": "Ann"}, {"name": "Eve"}]


def test_type_stays(session: Session) -> None:
    """A variable keeps the type of its DECLARE, and INT64 refuses a value that is not whole."""
    _do(session, "DECLARE x FLOAT64", "SET x = 3")
    assert _rows(session, "SELECT x / 2 AS a") == [{"a": 1.5}]
    _do(session, "DECLARE n INT64")
    with pytest.raises(InvalidInputError, match=r"write CAST\(value AS INT64\)"):
        _do(session, "SET n = 2.7")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("BOOL", "7"), ("STRING", "5"), ("DATE", "TIMESTAMP '2024-01-02 10:00:00'"), ("FLOAT64", "'1'"), ("INT64", "'1'")],
)
def test_type_is_checked(session: Session, kind: str, value: str) -> None:
    """A value of another type says to write CAST, as in BigQuery, in each form of the statement."""
    _do(session, f"DECLARE a, b {kind}")
    for sql in (f"SET a = {value}", f"SET (a, b) = ({value}, NULL)", f"DECLARE c {kind} DEFAULT {value}"):
        with pytest.raises(InvalidInputError, match=rf"write CAST\(value AS {kind}\)"):
            _do(session, sql)


def test_current_timestamp(session: Session) -> None:
    """A variable keeps the microseconds of the current time."""
    _do(session, "DECLARE t TIMESTAMP DEFAULT CURRENT_TIMESTAMP()")
    assert _rows(session, "SELECT t = t AS same, t <= CURRENT_TIMESTAMP() AS past") == [{"same": True, "past": True}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT id FROM emp", "write @id for the value of the variable, or t.id for the column"),
        ("DECLARE y", "write DECLARE x INT64 DEFAULT 3"),
        ("DECLARE y ARRAY<INT64>", "write DECLARE x INT64 DEFAULT 3"),
        ("SET id =", "write the value of a variable, as in SET id = 5"),
    ],
)
def test_refused(session: Session, sql: str, said: str) -> None:
    """A name that can be a column and a wrong statement say what to write."""
    _do(session, "DECLARE id INT64 DEFAULT 1")
    with pytest.raises(SqlError, match=said):
        _do(session, sql) if sql.startswith(("DECLARE", "SET")) else _rows(session, sql)


def test_units(session: Session) -> None:
    """A word after a number is a unit, and such a word elsewhere is an error with the text to write."""
    _do(session, "DECLARE day INT64 DEFAULT 5")
    assert _rows(session, "SELECT DATE '2024-01-02' + INTERVAL 1 day AS a") == [{"a": datetime(2024, 1, 3)}]  # noqa: DTZ001
    assert _rows(session, "SELECT day") == [{"day": 5}]
    with pytest.raises(SqlError, match="write @day for the value of the variable"):
        _rows(session, "SELECT DATE_DIFF(DATE '2024-01-05', DATE '2024-01-02', day) AS a")


def test_order(session: Session) -> None:
    """A variable of ORDER BY is a value, not the place of an item and not an item."""
    _do(session, "DECLARE b INT64 DEFAULT 2")
    assert _rows(session, "SELECT 1 AS a ORDER BY 1, b") == [{"a": 1}]
    found = _rows(session, "SELECT t.id, -t.id AS n FROM emp AS t ORDER BY @b, 1")
    assert [one["n"] for one in found] == [-1, -2]
    assert _rows(session, "SELECT 1 AS a, b ORDER BY 1 LIMIT 3") == [{"a": 1, "b": 2}]


def test_columns_stay(session: Session) -> None:
    """A column after the name of its table, an alias and a bound parameter are no variables."""
    _do(session, "DECLARE id INT64 DEFAULT 1")
    assert _rows(session, "SELECT t.id AS id FROM emp AS t WHERE t.id > @id") == [{"id": 2}]
    bound = pa.RecordBatch.from_pydict({"id": [2]})
    assert ask(session, "SELECT name FROM emp AS t WHERE t.id = @id", bound, dialect="bigquery").rows == [
        {"name": "Bob"}
    ]


def test_other_sets(session: Session) -> None:
    """SET of the server's settings stays one, and other dialects and sessions have no such variables."""
    _do(session, "DECLARE x INT64 DEFAULT 1", "SET flightllm.max_tokens = 500")
    with pytest.raises(FlightLLMError):
        ask(session, "SELECT x")
    assert session.state() is None


def test_temporary_functions(session: Session) -> None:
    """A function of a script is an error with the text to write."""
    with pytest.raises(FlightLLMError, match="write the expression in the statement, or CREATE FUNCTION name AS"):
        _do(session, "CREATE TEMP FUNCTION clean(x STRING) AS (LOWER(x))")
