"""Whole statements of DuckDB have the rows that DuckDB returns, or an error with the text to write."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.dialect.functions.tables import CREATE, NUMBERS


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the tables that DuckDB has, too."""
    database = small_database(tmp_path_factory.mktemp("statements"))
    session = database.session()
    session.update(CREATE)
    session.update(NUMBERS)
    yield session
    database.close()


STATEMENTS = [
    "PIVOT many ON n IN (1, 2) USING sum(x) GROUP BY w ORDER BY w",
    "PIVOT many ON n IN (1, 2) USING sum(x) GROUP BY w ORDER BY w LIMIT 1",
    "SELECT n, lag(w IGNORE NULLS) OVER (ORDER BY n DESC, w) AS l FROM many ORDER BY n, w",
    "SELECT n, last_value(x IGNORE NULLS) OVER (ORDER BY n, w) AS l FROM many ORDER BY n, w",
    "SELECT w[1:1] AS x, w || n AS y FROM many ORDER BY n, w",
    "SELECT n, any_value(x ORDER BY w) FILTER (WHERE x > 1) AS b FROM many GROUP BY n ORDER BY n",
    "SELECT any_value(s ORDER BY i) AS a FROM (VALUES (4, 'u'), (1, 'abc'), (0, NULL)) v(i, s)",
    "SELECT w.upper() AS x FROM many ORDER BY n, w",
    "SELECT w, list(n ORDER BY n)::VARCHAR AS l FROM many GROUP BY ALL ORDER BY ALL",
    "SELECT (max(day) - min(day)) // 2 AS d, sum(x) // 3 AS q FROM many",
    "SELECT m['b'] AS x, map_keys(m) AS k FROM (SELECT MAP {'a': 1, 'b': 2} AS m)",
    "FROM many SELECT n WHERE w GLOB 'x*' ORDER BY n",
    "SELECT MAP {'a': 1, 'b': 2}['b'] AS x, MAP {1: 2}[1] AS y, MAP {'a': 1}['z'] AS z",
    "SELECT {'a': n, 'b c': w, 'd': [x], 'e': {'f': day}}::VARCHAR AS x FROM many ORDER BY n, w",
    "SELECT [{'a': 'it''s'}, NULL]::VARCHAR AS x, MAP {'a b': 'x=y', 'c': ''}::VARCHAR AS y, 'x' || {'a': 1} AS z",
    "SELECT [INTERVAL '1 month 2 hours', INTERVAL '-3 seconds']::VARCHAR AS x, [1, 2]::INT[2]::VARCHAR AS y",
    r"SELECT 'a''b\x5C\xFF'::BLOB::VARCHAR AS x, ['\xAAb'::BLOB]::VARCHAR AS y, 'a'::BLOB || '\xFF'::BLOB AS z",
    "SELECT to_json(x) AS x, to_json({'a': n, 'b': [day]}) AS y FROM many ORDER BY n, w",
    "SELECT json_object('n', n, 'w', w) AS z FROM many ORDER BY n, w",
    "SELECT to_json(CAST(100 AS DECIMAL(10, 2))) AS x, to_json(1e20) AS y, to_json('nan'::DOUBLE) AS z",
    "SELECT to_json([TIMESTAMPTZ '2024-01-01 10:00:00+00']) AS x, to_json(INTERVAL 1 DAY) AS y",
    "SELECT json_array('x', 1.50, NULL, '[1]'::JSON) AS x, json_array() AS y, to_json(json_array(1)) AS z",
    "SELECT json_group_array(x) AS x FROM (SELECT x FROM many WHERE n < 2)",
    'SELECT \'{"a": 1, "b": 3, "a": 2}\'::JSON -> \'a\' AS x, json_keys(\'{"a": 1, "a": 2}\') AS y',
    "SELECT array_to_string([], '-') AS x, array_to_string([NULL], '-') AS y, array_to_string(['a', NULL], '-') AS z",
    "SELECT epoch_ms(TIMESTAMP '1960-01-01 00:00:00.0006') AS x, epoch_ms(TIMESTAMP '2024-01-01 00:00:00.0015') AS y",
    "SELECT epoch_ms(1701388800000) AS x, epoch_ms(DATE '2024-01-01') AS y, epoch_ms(INTERVAL 1 DAY) AS z",
    "SELECT ('{\"a\": [7, {\"c\": 2}]}'::JSON -> 'a')[0] AS x, ('{\"a\": {\"b\": 7}}'::JSON)['a']['b'] AS y",
    "SELECT ('[4, 5, 6]'::JSON)[0] AS x, ('{\"a\": [4, 5]}'::JSON)['a'][1] AS y, ('[[4, 5]]'::JSON)[0][1] AS z",
    "SELECT (json_extract('{\"a\": [7, {\"c\": 2}]}', '$.a'))[1] AS x",
    "SELECT list_select([1, 2], [2, 5, 0, -1]) AS x, list_pack(1, 2) AS y, array_push_front([1], 0) AS z",
    "SELECT strip_accents('ÀßøÉ') AS x, url_encode('é~-_.*+ ') AS y, sha1('é') AS z, parse_filename('/a/b/c.t') AS w",
    "SELECT fdiv(-7, 2) AS x, make_timestamp(1704067200000001) AS y, map_extract_value(MAP {'a': 1}, 'a') AS z",
    "SELECT time_bucket(INTERVAL '2 weeks', day), time_bucket(INTERVAL '5 months', day) FROM many ORDER BY n, w",
    "SELECT time_bucket(INTERVAL '90 minutes', TIMESTAMP '1969-12-31 23:59:59') AS x",
    "SELECT time_bucket(INTERVAL '2 months', day, DATE '2024-02-01') AS x FROM many ORDER BY n, w",
    "SELECT round(1.15 * 3, 1)::VARCHAR AS x, concat(x, '|', p) AS y FROM many ORDER BY n, w",
]


@pytest.fixture(scope="module")
def vendor() -> Any:
    """Open the real DuckDB with the same tables."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(CREATE)
    connection.execute(NUMBERS)
    return connection


@pytest.mark.parametrize("sql", STATEMENTS)
def test_rows(session: Session, vendor: Any, sql: str) -> None:
    """The rows are those of the real DuckDB, in their order."""
    expected = [list(row) for row in vendor.execute(sql).fetchall()]
    assert [list(row.values()) for row in ask(session, sql, dialect="duckdb").rows] == expected


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * RENAME (n AS m) FROM many", "write SELECT \\* EXCLUDE"),
        ("SELECT a.n FROM many a POSITIONAL JOIN many b", "row_number"),
        ("SELECT n FROM many LIMIT 50%", "write a number of rows"),
        ("SELECT 1::BIT AS x", "write the bits"),
        ('SELECT \'{"a": {"x": 1, "x": 2}}\'::JSON -> \'a\' AS x', "write each name once"),
        ("SELECT 'é'::BLOB AS x", "two hexadecimal digits"),
        (r"SELECT '\xA'::BLOB AS x", "two hexadecimal digits"),
        ("SELECT MAP {} AS x", "an empty map"),
        ("SELECT json_object('a') AS x", "names and values in turn"),
        ("SELECT time_bucket(INTERVAL '1 hour', day, INTERVAL '15 minutes') FROM many", "write DATE"),
        ("SELECT time_bucket(w::INTERVAL, day) FROM many", "write time_bucket"),
        ("SELECT ('[1, 2]'::JSON)[-1]", "from the end"),
        ("SELECT ('[1, 2]'::JSON)[n] FROM many", "must be a literal"),
        ("SELECT w GLOB lower(w) FROM many", "text literal"),
    ],
)
def test_says_what_to_write(session: Session, sql: str, said: str) -> None:
    """A part without a counterpart has an error with the text to write."""
    with pytest.raises(FlightLLMError, match=said):
        ask(session, sql, dialect="duckdb")
