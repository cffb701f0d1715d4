"""Values that BigQuery spells otherwise have its values."""

import re
from pathlib import Path

import pytest

from flightllm.dialect.transpiling import transpile
from flightllm.errors import SqlError, UnsupportedError
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY


def test_values(tmp_path: Path) -> None:
    """Fields of JSON literals, hexadecimal texts and distances are those of BigQuery."""
    items = {
        """CAST(JSON_VALUE(JSON '{"a": {"b": 1}}'.a, '$.b') AS INT64)""": 1,
        """JSON_VALUE(JSON '{"a": ["x", "y"]}'.a[1])""": "y",
        "CAST('0x1F' AS INT64)": 31,
        "CAST('-0x1f' AS INT64)": -31,
        "SPLIT('a.b', '.')[OFFSET(1)]": "b",
        "SPLIT('a.b', '.')[ORDINAL(1)]": "a",
        "SPLIT('a.b', '.')[SAFE_OFFSET(5)]": None,
        "SPLIT(CAST(NULL AS STRING), '.')[OFFSET(5)]": None,
        "IF(ARRAY_LENGTH(SPLIT('a', '.')) > 1, SPLIT('a', '.')[OFFSET(1)], 'z')": "z",
        "[STRUCT(['x', 'y'] AS b)][OFFSET(0)].b[OFFSET(1)]": "y",
        "ML.DISTANCE([1.0, 2.0], [4.0, 6.0])": 5.0,
        "ML.DISTANCE([1.0, 2.0], [4.0, 6.0], 'EUCLIDEAN')": 5.0,
        "ROUND(ML.DISTANCE([1.0, 0.0], [0.0, 1.0], 'COSINE'), 6)": 1.0,
    }
    database = small_database(tmp_path)
    select = ", ".join(f"{item} AS c{place}" for place, item in enumerate(items))
    (row,) = ask(database.session(), f"SELECT {select}", dialect="bigquery").rows
    assert list(row.values()) == list(items.values())
    database.close()


def test_places_outside_of_a_list(tmp_path: Path) -> None:
    """A place beyond the end of a list is an error with the form that is NULL there."""
    database = small_database(tmp_path)
    for place, write in {
        "OFFSET(5)": "write list[SAFE_OFFSET(5)]",
        "OFFSET(-1)": "write list[SAFE_OFFSET(-1)]",
        "ORDINAL(3)": "write list[SAFE_ORDINAL(3)]",
        "ORDINAL(0)": "write list[SAFE_ORDINAL(0)]",
    }.items():
        with pytest.raises(SqlError, match=re.escape(write)):
            ask(database.session(), f"SELECT SPLIT('a.b', '.')[{place}]", dialect="bigquery")
    database.close()


def test_null_items_of_a_result(tmp_path: Path) -> None:
    """A list with a NULL element is an error in a result, and a value inside of a query."""
    table = "(SELECT 1 AS k, 2 AS a UNION ALL SELECT 1, NULL) AS t"
    database = small_database(tmp_path)
    for wrong in (
        f"SELECT ARRAY_AGG(a) AS l FROM {table}",
        f"SELECT ARRAY_AGG(DISTINCT a) FROM {table}",
        f"SELECT k, ARRAY_AGG(a) OVER (PARTITION BY k) AS l FROM {table}",
        f"SELECT [1] AS l UNION ALL SELECT ARRAY_AGG(a) FROM {table}",
        f"WITH q AS (SELECT k, ARRAY_AGG(a) AS l FROM {table} GROUP BY k) SELECT k, l FROM q",
        f"SELECT * FROM (SELECT k, ARRAY_AGG(a) AS l FROM {table} GROUP BY k)",
    ):
        with pytest.raises(SqlError, match=re.escape("write ARRAY_AGG(a IGNORE NULLS)")):
            ask(database.session(), wrong, dialect="bigquery")
    for item, value in {
        "ARRAY_AGG(a IGNORE NULLS)": [2],
        "ARRAY_AGG(k)": [1, 1],
        "ARRAY_AGG(DISTINCT k)": [1],
        "ARRAY_LENGTH(ARRAY_AGG(a))": 2,
        "ARRAY_AGG(k LIMIT 1)": [1],
    }.items():
        assert ask(database.session(), f"SELECT {item} AS v FROM {table}", dialect="bigquery").rows == [{"v": value}]
    database.close()


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ("ML.DISTANCE([1.0], [2.0], 'MANHATTAN') AS d", "write one of them"),
        ("NET.HOST(a) AS d", "write REGEXP_EXTRACT(text"),
        (
            "a FROM VECTOR_SEARCH(TABLE t, 'e', (SELECT b AS e FROM u), top_k => 2)",
            "write SELECT * FROM vector_search(",
        ),
    ],
)
def test_says_what_to_write(text: str, write: str) -> None:
    """The error of a call without a counterpart has the text to write."""
    with pytest.raises(UnsupportedError, match=re.escape(write)):
        transpile(f"SELECT {text}", "bigquery", EMPTY)
