"""DESCRIBE of tables and of queries names types as SUMMARIZE does."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask

_VALUES = {
    "1": "BIGINT",
    "'x'": "VARCHAR",
    "arrow_cast('x', 'Dictionary(Int32, Utf8)')": "VARCHAR",
    "DATE '2020-01-01'": "DATE",
    "now()": "TIMESTAMP WITH TIME ZONE",
    "CAST(1.5 AS DECIMAL(9, 2))": "DECIMAL(9,2)",
    "[1, 2]": "BIGINT[]",
    "named_struct('c', 1, 'd', 'x')": "STRUCT(c BIGINT, d VARCHAR)",
    "map(['a'], [1])": "MAP(VARCHAR, BIGINT)",
}


@pytest.mark.parametrize("value", _VALUES)
def test_names_agree(session: Session, value: str) -> None:
    """A column's type has one name, whichever statement tells it."""
    session.update(f"CREATE OR REPLACE TABLE typed AS SELECT {value} AS v")
    found = {
        "DESCRIBE typed": "data_type",
        "DESCRIBE SELECT v FROM typed": "data_type",
        "SUMMARIZE typed": "column_type",
    }
    names = [ask(session, sql).table[column].to_pylist() for sql, column in found.items()]
    assert names == [[_VALUES[value]]] * 3
