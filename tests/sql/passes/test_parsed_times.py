"""Times that are read from a column of texts have the values and the type of times that are read from a literal."""

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from tests.databases import ask

_TEXTS = "(SELECT CASE WHEN id < 0 THEN name ELSE '2024-02-03T04:05:06.789' END AS s FROM people LIMIT 1) AS q"


@pytest.mark.parametrize("given", ["", ", '%Y-%m-%dT%H:%M:%S%.f'", ", '%Y', '%Y-%m-%dT%H:%M:%S%.f'"])
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("to_timestamp", "ns"),
        ("to_timestamp_seconds", "s"),
        ("to_timestamp_millis", "ms"),
        ("to_timestamp_micros", "us"),
        ("to_timestamp_nanos", "ns"),
    ],
)
def test_columns_are_read_as_literals_are(session: Session, name: str, unit: str, given: str) -> None:
    """A column has the rows of the literal, in UTC and in the unit of the function."""
    found = ask(session, f"SELECT {name}(s{given}) AS x FROM {_TEXTS}").table
    expected = ask(session, f"SELECT {name}('2024-02-03T04:05:06.789'{given}) AS x").table
    assert found.schema.field("x").type == pa.timestamp(unit, "UTC")
    assert found["x"].to_pylist() == expected["x"].to_pylist()


@pytest.mark.parametrize(
    ("dialect", "read"),
    [
        ("default", "to_timestamp(s)"),
        ("postgres", """to_timestamp(s, 'YYYY-MM-DD"T"HH24:MI:SS.MS')"""),
        ("bigquery", "PARSE_TIMESTAMP('%Y-%m-%d', SUBSTR(s, 1, 10))"),
    ],
)
def test_times_are_compared(session: Session, dialect: str, read: str) -> None:
    """A filter compares the times with times in a zone; the optimizer does not remove their type."""
    sql = f"SELECT count(*) AS n FROM {_TEXTS} WHERE {read} > CAST('2024-02-02' AS TIMESTAMP)"
    assert ask(session, sql, dialect=dialect).rows == [{"n": 1}]
