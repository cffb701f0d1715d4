"""BigQuery's literals of structs and bytes, UNPIVOT and SELECT AS STRUCT."""

from pathlib import Path

import pytest

from flightllm.dialect.transpiling import transpile
from flightllm.errors import FlightLLMError
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY

CASES = [
    ("SELECT STRUCT<a INT64, b STRING>(1, 'x') AS s", [{"s": {"a": 1, "b": "x"}}]),
    (
        "SELECT x, y FROM UNNEST([STRUCT('a' AS x, 1 AS y), ('b', 2)]) ORDER BY y",
        [{"x": "a", "y": 1}, {"x": "b", "y": 2}],
    ),
    ("SELECT q.x FROM UNNEST(ARRAY<STRUCT<x INT64>>[STRUCT(5)]) AS q", [{"x": 5}]),
    ("SELECT CAST('a' AS STRING) AS x, STRING(JSON '\"b\"') AS y", [{"x": "a", "y": "b"}]),
    ("SELECT STRUCT<a INT64, b STRUCT<c INT64>>(1, (2)) AS s", [{"s": {"a": 1, "b": {"c": 2}}}]),
    ("SELECT AS STRUCT 1 AS a, 2 AS b", [{"a": 1, "b": 2}]),
    (
        "SELECT * FROM (SELECT 1 AS i, 2 AS a, 3 AS b) UNPIVOT (v FOR k IN (a)) AS u",
        [{"i": 1, "b": 3, "v": 2, "k": "a"}],
    ),
    (
        r"SELECT TO_HEX(b'a\x00\xff') AS x, LENGTH(b'é') AS n",
        [{"x": "6100ff", "n": 2}],
    ),
    ("SELECT JSON_QUERY('{\"a\": [1, \"x y\"]}', '$.a') AS x", [{"x": '[1,"x y"]'}]),
    ("SELECT TO_JSON(STRUCT('x' AS a, TO_JSON(STRUCT(1 AS c)) AS b)) AS x", [{"x": '{"a":"x","b":{"c":1}}'}]),
    ("SELECT DATE_ADD('2023-01-29', INTERVAL 1 MONTH) = DATE '2023-02-28' AS x", [{"x": True}]),
    ("SELECT LEFT('apple', NULL) AS x, SOUNDEX('apple') AS y", [{"x": None, "y": "a140"}]),
]


def test_rows(tmp_path: Path) -> None:
    """Each statement has BigQuery's rows."""
    database = small_database(tmp_path)
    session = database.session()
    found = [(sql, ask(session, sql, dialect="bigquery").rows) for sql, _ in CASES]
    assert found == CASES
    database.close()


@pytest.mark.parametrize(
    ("sql", "write"),
    [
        (r"SELECT b'\xz'", "write b'"),
        (
            "SELECT STRUCT<a INT64, b INT64>(1)",
            r"2 fields, .* 1 value: write STRUCT<a INT64, b INT64>\(NULL, NULL\)",
        ),
        ("SELECT STRUCT<a INT64>(1, 2)", r"has 1 field, .* 2 values: write STRUCT<a INT64>\(NULL\)"),
        ("SELECT STRUCT<a INT64, b STRUCT<c INT64, d INT64>>(1, (2))", "STRUCT<c INT64, d INT64> has 2 fields"),
        ("SELECT ARRAY<STRUCT<x INT64, y INT64>>[STRUCT(1)]", "has 2 fields, .* 1 value: write"),
        ("SELECT ARRAY<STRUCT<x INT64>>[s] FROM t", r"write \[s\] without the type"),
        ("SELECT [STRUCT(1 AS a), (2, 3)]", r"1 and 2 values: write .*\[STRUCT\(1 AS a\), \(NULL\)\]"),
        ("SELECT SAFE.ARRAY_TO_STRING(a, ',') FROM t", "write SAFE_CAST"),
        ("SELECT TO_CODE_POINTS(b'a')", "write TO_HEX"),
    ],
)
def test_says_what_to_write(sql: str, write: str) -> None:
    """A part without a counterpart says what to write."""
    with pytest.raises(FlightLLMError, match=write):
        transpile(sql, "bigquery", EMPTY)
