"""Values that BigQuery spells otherwise have its values."""

import re
from pathlib import Path

import pytest

from flightllm.dialect.transpiling import transpile
from flightllm.errors import UnsupportedError
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY


def test_values(tmp_path: Path) -> None:
    """Fields of JSON literals, hexadecimal texts and distances are those of BigQuery."""
    items = {
        """CAST(JSON_VALUE(JSON '{"a": {"b": 1}}'.a, '$.b') AS INT64)""": 1,
        """JSON_VALUE(JSON '{"a": ["x", "y"]}'.a[1])""": "y",
        "CAST('0x1F' AS INT64)": 31,
        "CAST('-0x1f' AS INT64)": -31,
        "ML.DISTANCE([1.0, 2.0], [4.0, 6.0])": 5.0,
        "ML.DISTANCE([1.0, 2.0], [4.0, 6.0], 'EUCLIDEAN')": 5.0,
        "ROUND(ML.DISTANCE([1.0, 0.0], [0.0, 1.0], 'COSINE'), 6)": 1.0,
    }
    database = small_database(tmp_path)
    select = ", ".join(f"{item} AS c{place}" for place, item in enumerate(items))
    (row,) = ask(database.session(), f"SELECT {select}", dialect="bigquery").rows
    assert list(row.values()) == list(items.values())
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
