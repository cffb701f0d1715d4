"""The tables of `information_schema` are read with the names that vendors give them."""

import re
from pathlib import Path

import pytest

from flightllm.errors import UnsupportedError
from tests.databases import ask, small_database


def test_names(tmp_path: Path) -> None:
    """Snowflake compares names in capitals, and BigQuery names the table in one word of sqlglot."""
    database = small_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE orders AS SELECT 1 AS id")
    for dialect, condition in (
        ("snowflake", "TABLE_NAME = 'ORDERS'"),
        ("snowflake", "TABLE_NAME IN ('ORDERS', 'X') AND 'PUBLIC' = TABLE_SCHEMA"),
        ("snowflake", "TABLE_NAME LIKE 'ORD%' AND TABLE_NAME <> 'OTHER'"),
        ("snowflake", "TABLE_NAME = 'orders'"),
        ("snowflake", "TABLE_NAME = 'ORDERS' AND DATA_TYPE = 'Int64'"),
        ("bigquery", "table_name = 'orders'"),
    ):
        text = f"SELECT COLUMN_NAME AS c FROM INFORMATION_SCHEMA.COLUMNS WHERE {condition}"
        assert [list(row.values()) for row in ask(session, text, dialect=dialect).rows] == [["id"]], condition
    database.close()


@pytest.mark.parametrize(
    ("dialect", "text", "write"),
    [
        ("snowflake", "INFORMATION_SCHEMA.COLUMNS WHERE DATA_TYPE = 'TEXT'", "write DATA_TYPE = 'Utf8'"),
        (
            "bigquery",
            "ds.INFORMATION_SCHEMA.COLUMNS",
            "write FROM INFORMATION_SCHEMA.COLUMNS WHERE table_schema = 'ds'",
        ),
    ],
)
def test_says_what_to_write(tmp_path: Path, dialect: str, text: str, write: str) -> None:
    """The error of a form without a counterpart has the text to write."""
    database = small_database(tmp_path)
    with pytest.raises(UnsupportedError, match=re.escape(write)):
        ask(database.session(), f"SELECT 1 AS a FROM {text}", dialect=dialect)
    database.close()
