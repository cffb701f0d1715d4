"""SUMMARIZE tells of each column what DuckDB does, of the rows that its user may read."""

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.common.type_names import type_name
from flightllm.errors import FlightLLMError
from flightllm.execution.summarize import SCHEMA
from flightllm.session.database import Database
from tests.databases import ask, small_database

PEOPLE = [
    ("id", "BIGINT", "1", "9", 9, "5.0", "2.7386127875258306", "3", "5", "7", 9, Decimal("0.00")),
    ("name", "VARCHAR", "Ann", "Fay", 5, None, None, None, None, None, 9, Decimal("22.22")),
    ("flag", "BOOLEAN", "false", "true", 2, None, None, None, None, None, 9, Decimal("22.22")),
    ("score", "DOUBLE", "0.0", "4.0", 5, "2.5", "1.5275252316519468", "1.25", "3.5", "3.5", 9, Decimal("22.22")),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open the small tables."""
    database = small_database(tmp_path_factory.mktemp("summaries"))
    yield database
    database.close()


def _rows(database: Database, sql: str, dialect: str = "default") -> list[tuple[object, ...]]:
    session = database.session()
    session.update(f"SET flightllm.dialect = '{dialect}'")
    found = ask(session, sql)
    assert found.table.schema == SCHEMA
    return [tuple(row.values()) for row in found.rows]


@pytest.mark.parametrize("dialect", ["default", "duckdb"])
def test_columns(database: Database, dialect: str) -> None:
    """Each column of a query has a row with its type, its range, its mean and quantiles, and its share of NULLs."""
    rows = _rows(database, "SUMMARIZE SELECT id, name, flag, score FROM people; -- all", dialect)
    assert rows == PEOPLE


def test_conditions(database: Database) -> None:
    """The parser reads no SUMMARIZE; the query behind this word has the rows of PostgreSQL all the same."""
    [row] = _rows(database, "SUMMARIZE SELECT id FROM people WHERE id IS DISTINCT FROM 1 AND id < 3")
    assert row[:4] == ("id", "BIGINT", "2", "2")


@pytest.mark.parametrize("sql", ["SUMMARIZE people", "summarize FROM people", "SUMMARIZE (FROM public.people)"])
def test_tables(database: Database, sql: str) -> None:
    """A table is summarised as all of its columns are."""
    rows = _rows(database, sql)
    assert [row[0] for row in rows] == ["id", "name", "note", "score", "flag", "day"]
    assert rows[-1][1:5] == ("DATE", "2021-09-10", "2024-01-02", 4)
    assert rows[-1][8] == "2024-01-02"


def test_no_rows(database: Database) -> None:
    """Of no rows, there is no range and no share of NULLs."""
    rows = _rows(database, "SUMMARIZE nothing")
    assert {row[2:] for row in rows} == {(None, None, 0, None, None, None, None, None, 0, None)}


def test_kinds(database: Database) -> None:
    """Columns of every type have rows, two columns of one name too."""
    values = {
        "DECIMAL(4,2)": "CAST(1.25 AS DECIMAL(4, 2))",
        "TIMESTAMP": "TIMESTAMP '2024-01-02 03:04:05'",
        "TIME": "TIME '03:04:05'",
        "BLOB": "X'00ff'",
        "BIGINT[]": "[1, 2]",
        "STRUCT(a BIGINT)": "{'a': 1}",
        "MAP(VARCHAR, BIGINT)": "MAP {'a': 1}",
        "INTERVAL": "INTERVAL '1 day'",
        '"NULL"': "NULL",
    }
    rows = _rows(database, f"SUMMARIZE SELECT {', '.join(f'{value} AS x' for value in values.values())}")
    assert [row[:2] for row in rows] == [("x", name) for name in values]
    ranges = ["1.25", "2024-01-02T03:04:05", "03:04:05", None, "[1, 2]", None, None, "1 days", None]
    assert [row[2] for row in rows] == ranges
    assert [row[4] for row in rows] == [1] * 8 + [0]
    assert [row[7] for row in rows[:3]] == ranges[:3]
    assert type_name(pa.list_(pa.uint8())) == "UTINYINT[]"


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        ("9223372036854775807", "BIGINT", "9223372036854775807"),
        ("-9223372036854775808", "BIGINT", "-9223372036854775808"),
        ("9007199254740993", "BIGINT", "9007199254740993"),
        ("arrow_cast('18446744073709551615', 'UInt64')", "UBIGINT", "18446744073709551615"),
        ("CAST('99999999999999999999' AS DECIMAL(20, 0))", "DECIMAL(20,0)", "99999999999999999999"),
        ("CAST('9.99' AS DECIMAL(3, 2))", "DECIMAL(3,2)", "9.99"),
        (
            "arrow_cast(9223372036854775807, 'Timestamp(Nanosecond, None)')",
            "TIMESTAMP",
            "2262-04-11T23:47:16.854775807",
        ),
        ("arrow_cast(5, 'Dictionary(Int32, Int64)')", "BIGINT", "5"),
        ("arrow_cast(DATE '2024-01-02', 'Dictionary(Int8, Date32)')", "DATE", "2024-01-02"),
    ],
)
def test_quantiles_are_within_their_range(database: Database, value: str, kind: str, shown: str) -> None:
    """A quantile is no less than the least value and no greater than the greatest, large numbers' too."""
    (row,) = _rows(database, f"SUMMARIZE SELECT {value} AS x")
    assert row[1:5] == (kind, shown, shown, 1)
    assert row[7:10] == (shown, shown, shown)


def test_dictionaries(database: Database) -> None:
    """A column that is stored as a dictionary of texts is one of texts."""
    (row,) = _rows(database, "SUMMARIZE SELECT arrow_cast(name, 'Dictionary(Int32, Utf8)') AS x FROM people")
    assert row == ("x", *PEOPLE[1][1:])


def test_calls_are_made_once(database: Database) -> None:
    """An AI call in the query is made once for each value, though many aggregates read it."""
    found = ask(database.session(), "SUMMARIZE SELECT ai_filter('Is it tea?', note) AS tea FROM people")
    assert found.rows[0]["column_type"] == "BOOLEAN"
    assert 0 < found.calls <= 4


def test_prepared(database: Database) -> None:
    """The columns are known before parameters are, and parameters have the types of their places."""
    session = database.session()
    sql = "SUMMARIZE SELECT id FROM people WHERE id > $1"
    described = session.describe(sql)
    assert described.schema == SCHEMA
    assert described.parameters.types == [pa.int64()]
    result = session.execute(sql, pa.record_batch({"1": [7]}))
    assert pa.Table.from_batches(list(result.batches))["count"].to_pylist() == [2]


def test_explained(database: Database) -> None:
    """EXPLAIN shows the aggregates."""
    plan = ask(database.session(), "EXPLAIN SUMMARIZE people").rows[0]["plan"]
    assert "approx_distinct" in plan


def test_rights(database: Database) -> None:
    """Rows that a filter hides are not counted, and a table that a user may not read stays unread."""
    database.access.store.add_user(User("eve", "user"))
    admin = database.session()
    admin.update("GRANT SELECT ON people TO eve")
    admin.update("CREATE ROW FILTER ON people TO eve AS id < 4")
    eve = database.session(Principal("eve", "user"))
    row = ask(eve, "SUMMARIZE people").rows[0]
    assert (row["max"], row["count"]) == ("3", 3)
    with pytest.raises(FlightLLMError, match="likes"):
        ask(eve, "SUMMARIZE likes")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SUMMARIZE", "SUMMARIZE needs a query after it"),
        ("SUMMARIZE SHOW TABLES", "SUMMARIZE needs a query after it"),
        (
            f"SUMMARIZE SELECT {', '.join(f'{at} AS c{at}' for at in range(101))}",
            'at most 100 columns, but there are 101: name some of them, as in SUMMARIZE SELECT "c0", "c1" FROM …',
        ),
        ("CREATE TABLE x AS SUMMARIZE people", "CREATE TABLE … AS needs a query after it"),
    ],
)
def test_refused(database: Database, sql: str, said: str) -> None:
    """Only queries are summarised, and a summary is no part of another statement."""
    with pytest.raises(FlightLLMError, match=said):
        database.session().describe(sql)
