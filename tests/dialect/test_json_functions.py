"""Vendors' functions over JSON texts give the values that the vendors document, also where a text is no JSON."""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_ROWS = """CREATE TABLE docs AS SELECT * FROM (VALUES
    (1, '{"l": ["a", "b"], "o": {"k": "v"}, "s": "x", "n": 7}'),
    (2, '{"l": ["a", {"k": 1}], "s": ["q"], "n": "7"}'),
    (3, '{"l": ["a", null], "s": null, "n": 7.5}'),
    (4, NULL), (5, 'no json'), (6, '["p", [1]]'), (7, '{"l": []}')) AS v(id, j)"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table and a view of JSON texts, NULL and other text."""
    database = small_database(tmp_path_factory.mktemp("json"))
    session = database.session()
    session.update(_ROWS)
    session.update("CREATE VIEW seen AS SELECT id, j FROM docs")
    yield session
    database.close()


def _values(session: Session, sql: str, dialect: str) -> list[object]:
    return [next(iter(row.values())) for row in ask(session, sql, dialect=dialect).rows]


_LISTED: Sequence[tuple[str, Sequence[object]]] = (
    ("JSON_VALUE_ARRAY(j, '$.l')", [["a", "b"], None, ["a", None], None, None, None, []]),
    ("JSON_EXTRACT_STRING_ARRAY(j, '$.l')", [["a", "b"], None, ["a", None], None, None, None, []]),
    ("JSON_VALUE_ARRAY(j)", [None] * 7),
    ("JSON_QUERY_ARRAY(j)", [None, None, None, None, None, ['"p"', "[1]"], None]),
    ("JSON_QUERY(j, '$.s')", ['"x"', '["q"]', None, None, None, None, None]),
    ("JSON_EXTRACT(j, \"$['s']\")", ['"x"', '["q"]', None, None, None, None, None]),
    ("JSON_VALUE(j, '$.s')", ["x", None, None, None, None, None, None]),
    ("ARRAY_LENGTH(JSON_VALUE_ARRAY(j, '$.l'))", [2, None, 2, None, None, None, 0]),
    ("SAFE.INT64(JSON_QUERY(j, '$.n'))", [7, None, None, None, None, None, None]),
    ("LAX_INT64(JSON_QUERY(j, '$.n'))", [7, 7, 8, None, None, None, None]),
    ("LAX_STRING(JSON_QUERY(j, '$.n'))", ["7", "7", "7.5", None, None, None, None]),
    ("SAFE.STRING(JSON_QUERY(j, '$.s'))", ["x", None, None, None, None, None, None]),
)
"""Expressions over the column `j`, and their values in its rows."""


@pytest.mark.parametrize(
    "source",
    [
        "docs",
        "seen",
        "(SELECT id, j FROM docs) AS q",
        "(SELECT id, j FROM docs WHERE id < 3 UNION ALL SELECT id, j FROM seen WHERE id > 2) AS q",
        "(SELECT id, PARSE_JSON(CASE WHEN id <> 5 THEN j END) AS j FROM docs) AS q",
    ],
)
def test_of_bigquery(session: Session, source: str) -> None:
    """A list with a list or an object in it has no texts, null is NULL, and a value of another kind is NULL if safe."""
    items = ", ".join(f"{sql} AS c{place}" for place, (sql, _) in enumerate(_LISTED))
    found = ask(session, f"SELECT {items} FROM {source} ORDER BY id", dialect="bigquery").rows
    for place, (sql, values) in enumerate(_LISTED):
        assert [row[f"c{place}"] for row in found] == list(values), sql


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("INT64(PARSE_JSON('10'))", 10),
        ("INT64(JSON '10.0')", 10),
        ("FLOAT64(JSON '9.8')", 9.8),
        ("BOOL(JSON 'true')", True),
        ("STRING(PARSE_JSON('\"red\"'))", "red"),
        ("STRING(DATE '2024-01-02')", "2024-01-02"),
        ("SAFE.BOOL(JSON '1')", None),
        ("SAFE.FLOAT64(JSON '\"1\"')", None),
        ("SAFE.PARSE_JSON('no json')", None),
        ("SAFE.SUBSTR('abc', 2)", "bc"),
        ("SAFE.SUBSTR('abcdef', -3)", "def"),
        ("SAFE.SUBSTR('abc', 0, 2)", "ab"),
        ("SAFE.SUBSTRING('abc', -5, 2)", "ab"),
        ("SAFE.SUBSTR('abc', 1, -1)", None),
        ("LAX_INT64(JSON '\"1.1\"')", 1),
        ("LAX_INT64(JSON '1.5')", 2),
        ("LAX_INT64(JSON 'true')", 1),
        ("LAX_INT64(JSON '\"inf\"')", None),
        ("LAX_INT64(JSON '9223372036854775808')", None),
        ("LAX_BOOL(JSON '0')", False),
        ("LAX_BOOL(JSON '\"TRUE\"')", True),
        ("LAX_STRING(JSON '[1]')", None),
        ("LAX_FLOAT64(JSON '\"1.5\"')", 1.5),
        ("LAX_FLOAT64(JSON 'true')", None),
    ],
)
def test_typed_of_bigquery(session: Session, sql: str, value: object) -> None:
    """INT64 and its kin read one kind of value, and LAX_INT64 and its kin convert the others."""
    assert _values(session, f"SELECT {sql} AS x", "bigquery") == [value]


@pytest.mark.parametrize(
    ("dialect", "sql", "value"),
    [
        ("bigquery", "JSON_VALUE('{\"a\\'b\": 5}', '$.\"a\\'b\"')", "5"),
        ("databricks", "get_json_object('{\"a b\": 5}', \"$['a b']\")", "5"),
        ("duckdb", "'{\"it''s\": 1}' ->> 'it''s'", "1"),
        ("snowflake", "GET_PATH(PARSE_JSON('{\"a b\": 3}'), '[\\'a b\\']')::INT", 3),
        ("snowflake", "JSON_EXTRACT_PATH_TEXT('{\"a b\": 3}', $$['a b']$$)", "3"),
        ("snowflake", "GET(PARSE_JSON('{\"a\": [5]}'), 'a')[0]::INT", 5),
        ("snowflake", "GET(GET(PARSE_JSON('{\"a\": [5]}'), 'a'), 0)::INT", 5),
        ("snowflake", "GET(PARSE_JSON('{\"a\": [5]}'), 'a')", "[5]"),
        ("snowflake", "GET(SPLIT('p q', ' '), 1)", "q"),
        ("snowflake", "TRY_PARSE_JSON('{no json')", None),
        ("snowflake", "PARSE_JSON(NULL)", None),
        ("snowflake", "PARSE_JSON('a plain answer')", "a plain answer"),
        ("databricks", "try_parse_json('{no json')", None),
        ("databricks", "variant_get(parse_json('{\"a\": 3}'), '$.a', 'int')", 3),
        ("databricks", "try_variant_get(parse_json('{\"a\": \"x\"}'), '$.a', 'int')", None),
        ("databricks", "variant_get(parse_json('{\"a\": {\"b\": 1}}'), '$.a')", '{"b": 1}'),
    ],
)
def test_paths_with_quotes(session: Session, dialect: str, sql: str, value: object) -> None:
    """A path in quotes reads the name between them, and a text that is no JSON has no values."""
    assert _values(session, f"SELECT {sql} AS x", dialect) == [value]


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("bigquery", "PARSE_JSON('no json')", "SAFE.PARSE_JSON"),
        ("snowflake", "PARSE_JSON('{no json')", "TRY_PARSE_JSON"),
        ("databricks", "parse_json('[no json')", "TRY_PARSE_JSON"),
        ("bigquery", "INT64(JSON '\"x\"')", "LAX_INT64"),
        ("bigquery", "INT64(JSON '1.5')", "whole number"),
        ("bigquery", "STRING(JSON_QUERY('{\"n\": 1}', '$.n'))", "a row has a number"),
        ("bigquery", "BOOL(JSON 'null')", "a row has null"),
        ("bigquery", "JSON_VALUE('{}', 'a')", r"'\$.a'"),
        ("databricks", "variant_get(parse_json('1'), '$', 'interval')", "simple types"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """A value that the vendor refuses is an error, which says what to write."""
    with pytest.raises(FlightLLMError, match=said):
        ask(session, f"SELECT {sql} AS x", dialect=dialect)


def test_error_in_a_row(session: Session) -> None:
    """A row with another kind of value stops the query, with no part of the value in the error."""
    with pytest.raises(SqlError, match="a row has a string") as refused:
        ask(session, "SELECT INT64(JSON_QUERY(j, '$.n')) FROM docs", dialect="bigquery")
    assert '"7"' not in str(refused.value)
