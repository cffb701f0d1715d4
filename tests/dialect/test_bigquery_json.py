"""JSON and FORMAT of BigQuery write values as its table of encodings says."""

from collections.abc import Mapping

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask

_TEXTS: Mapping[str, object] = {
    "TO_JSON_STRING(b'Google')": '"R29vZ2xl"',
    "TO_JSON_STRING(STRUCT([b'a'] AS x))": '{"x":["YQ=="]}',
    "TO_JSON(b'Google')": '"R29vZ2xl"',
    "JSON_OBJECT('a', b'Google')": '{"a":"R29vZ2xl"}',
    "TO_JSON_STRING(NUMERIC '123.560')": '"123.56"',
    "TO_JSON_STRING(NUMERIC '2.00')": "2",
    "TO_JSON_STRING([NUMERIC '1.50'])": '["1.5"]',
    "TO_JSON_STRING(STRUCT(NUMERIC '1.50' AS x, 9007199254740993 AS y))": '{"x":"1.5","y":"9007199254740993"}',
    "TO_JSON_STRING(NUMERIC '9007199254740993')": '"9007199254740993"',
    "TO_JSON_STRING(9007199254740992)": "9007199254740992",
    "TO_JSON(9007199254740993)": "9007199254740993",
    "TO_JSON(NUMERIC '1.50')": "1.5",
    "TO_JSON(STRUCT(NUMERIC '1.50' AS x))": '{"x":1.5}',
    "TO_JSON_STRING([1.0, CAST('inf' AS FLOAT64), CAST('nan' AS FLOAT64)])": '[1,"Infinity","NaN"]',
    'TO_JSON_STRING(JSON \'{"a": 9007199254740993, "b": 1.0}\')': '{"a":9007199254740993,"b":1.0}',
    "TO_JSON_STRING([JSON '1', JSON '[2]'])": "[1,[2]]",
    "JSON_OBJECT('a', TO_JSON_STRING([1]))": '{"a":"[1]"}',
    "TO_JSON_STRING(INTERVAL 1 SECOND)": '"PT1S"',
    "TO_JSON_STRING(INTERVAL -25 MONTH)": '"P-2Y-1M"',
    "TO_JSON_STRING(CAST(NULL AS INTERVAL))": "null",
    "FORMAT('%T', b'abc')": 'b"abc"',
    "FORMAT('%T', b'a\"\\x01\\xff')": "b'a\"\\x01\\xff'",
    "FORMAT('%t', b'abc\\x01\\x02')": "abc\\x01\\x02",
    "FORMAT('%T', 'a\"b')": "'a\"b'",
    "FORMAT('%t', INTERVAL 90 MINUTE)": "0-0 0 1:30:0",
    "CAST(INTERVAL 3 DAY AS STRING)": "0-0 3 0:0:0",
    "CONCAT('a', CAST(TIMESTAMP '2024-01-01' AS STRING))": "a2024-01-01 00:00:00+00",
    "CONCAT(DATE '2024-01-01', 'a')": "2024-01-01a",
}


def test_encodings(session: Session) -> None:
    """Bytes, decimals, wide numbers, intervals and JSON have the documented texts."""
    items = ", ".join(f"{text} AS c{place}" for place, text in enumerate(_TEXTS))
    (row,) = ask(session, f"SELECT {items}", dialect="bigquery").rows
    assert dict(zip(_TEXTS, row.values(), strict=True)) == _TEXTS


@pytest.mark.parametrize("value", ["t", "(SELECT AS STRUCT t.a, t.b)"])
def test_whole_row(session: Session, value: str) -> None:
    """The JSON of a whole row has a field for each column."""
    rows = "(SELECT 1 AS a, NUMERIC '2.5' AS b) AS t"
    (row,) = ask(session, f"SELECT TO_JSON_STRING({value}) AS j FROM {rows}", dialect="bigquery").rows
    assert row == {"j": '{"a":1,"b":"2.5"}'}


def test_json_of_a_column(session: Session) -> None:
    """A column that a query computes as JSON stays JSON, and is no text with quotes."""
    rows = """(SELECT JSON '{"a": [1]}' AS j, '[2]' AS t) AS s"""
    select = "TO_JSON_STRING(j) AS j, TO_JSON_STRING(STRUCT(s.j AS k, t)) AS b, TO_JSON_STRING(t) AS t"
    (row,) = ask(session, f"SELECT {select} FROM {rows}", dialect="bigquery").rows
    assert row == {"j": '{"a":[1]}', "b": '{"k":{"a":[1]},"t":"[2]"}', "t": '"[2]"'}


def test_two_columns_of_a_name(session: Session) -> None:
    """A name means the column of its table: one can be JSON, and the other a text."""
    rows = "(SELECT JSON '1' AS name) AS a, (SELECT '1' AS name) AS b"
    select = "TO_JSON_STRING(a.name) AS a, TO_JSON_STRING(b.name) AS b"
    assert ask(session, f"SELECT {select} FROM {rows}", dialect="bigquery").rows == [{"a": "1", "b": '"1"'}]
    sql = "WITH c AS (SELECT JSON '1' AS name) SELECT TO_JSON_STRING(p.name) AS n FROM people AS p, c WHERE p.id = 1"
    assert ask(session, sql, dialect="bigquery").rows == [{"n": '"Ann"'}]


def test_stored_json(session: Session) -> None:
    """A stored JSON is no text, also as a part of a value, in COALESCE, and through a subquery."""
    session.update("CREATE OR REPLACE TABLE kept_json (j JSON, t TEXT)")
    session.update("""INSERT INTO kept_json VALUES ('{"a": 1}', '{"a": 2}')""")
    select = "TO_JSON_STRING(j) AS a, TO_JSON(STRUCT(j AS k, t)) AS b, JSON_OBJECT('k', COALESCE(j, JSON '1')) AS c"
    wanted = {"a": '{"a":1}', "b": '{"k":{"a":1},"t":"{\\"a\\": 2}"}', "c": '{"k":{"a":1}}'}
    for rows in ("kept_json", "(SELECT * FROM kept_json UNION ALL SELECT j, t FROM kept_json WHERE t = 'x')"):
        assert ask(session, f"SELECT {select} FROM {rows}", dialect="bigquery").rows == [wanted]


@pytest.mark.parametrize("joined", ["CONCAT(t, 'x')", "t || ''", "'a' || t", "CONCAT(TIME(t), 'x')"])
def test_no_time_joins_a_text(session: Session, joined: str) -> None:
    """A time beside `||` or in CONCAT is an error, as in BigQuery."""
    with pytest.raises(FlightLLMError, match=r"write CAST\(t AS STRING\)"):
        ask(session, f"SELECT {joined} FROM (SELECT CURRENT_TIMESTAMP() AS t)", dialect="bigquery")


@pytest.mark.parametrize(
    ("value", "write"),
    [
        ("JSON_OBJECT(ARRAY_AGG(name), ARRAY_AGG(note)) FROM people", r"JSON_OBJECT\('name', value\)"),
        ("LPAD(b'abc', 10, b'ghd')", "SAFE_CONVERT_BYTES_TO_STRING"),
        ("REGEXP_MATCH('ab', 'a')", "REGEXP_CONTAINS"),
        ("JSON_SET(JSON '{}', '$.a', 1)", "JSON_OBJECT"),
    ],
)
def test_names_the_line(session: Session, value: str, write: str) -> None:
    """A call without a counterpart is an error with the text to write; some gave other rows."""
    with pytest.raises(FlightLLMError, match=f"write.*{write}"):
        ask(session, f"SELECT {value}", dialect="bigquery")


@pytest.mark.parametrize("field", ["result", "status"])
def test_field_of_an_answer(session: Session, field: str) -> None:
    """The column of a field of AI.GENERATE has the name of the field."""
    (row,) = ask(session, f"SELECT AI.GENERATE('x').{field}", dialect="bigquery").rows
    assert list(row) == [field]
