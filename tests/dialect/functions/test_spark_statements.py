"""Statements of Spark have the rows of Spark 4.3, or say what to write."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from tests.databases import ask, small_database

_ORDERS = "(VALUES (1, 'a', 10), (1, 'b', 20), (2, 'a', CAST(NULL AS INT)), (3, CAST(NULL AS STRING), 5)) AS o(p, k, q)"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Open a database."""
    return small_database(tmp_path_factory.mktemp("spark"))


def test_counts_of_pivot(database: Database) -> None:
    """A cell of PIVOT without rows is NULL, and a cell with NULL alone counts 0."""
    sql = f"SELECT * FROM (SELECT * FROM {_ORDERS}) PIVOT (sum(q) AS s, count(q) AS c FOR k IN ('a', 'b')) ORDER BY p"
    rows = [list(row.values()) for row in ask(database.session(), sql, dialect="spark").rows]
    assert rows == [[1, 10, 1, 20, 1], [2, None, 0, None, None], [3, None, None, None, None]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("CAST('abc' AS INT)", "abc"),
        ("CAST('2024-13-01' AS DATE)", "2024-13-01"),
        ("date_format(now(), 'ww')", "write the format with yyyy"),
        ("date_format(now(), k)", "must be a text literal"),
        ("CAST(INTERVAL 1 DAY AS STRING)", "write its parts"),
        ("CAST(array(1.5D) AS STRING)", "write to_json"),
        ("datediff(NANOSECOND, now(), now())", "write datediff(microsecond, a, b)"),
        ("format_string('%d', k)", "write %s for a text"),
        ("format_string('%s', DATE '2024-01-01')", "write CAST"),
        ("from_json(k, 'a INT', map('mode', 'FAILFAST'))", "takes no options"),
        ("hex(array(1))", "write hex"),
        ("split(k, '|')", "a backslash before"),
    ],
)
def test_refused(database: Database, value: str, said: str) -> None:
    """A value that Spark refuses, or that has no counterpart, is an error that helps."""
    with pytest.raises(FlightLLMError) as error:
        ask(database.session(), f"SELECT {value} AS x FROM {_ORDERS}", dialect="spark")
    assert said in str(error.value)
