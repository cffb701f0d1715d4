"""The texts of values in DuckDB's dialect, over columns and derived tables."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask

FORMS = [
    ("SELECT age(DATE '2024-03-01', DATE '2024-01-31')::VARCHAR AS x", "1 month 1 day"),
    ("SELECT l::VARCHAR AS x FROM (SELECT ['a:b', NULL] AS l)", "['a:b', NULL]"),
    ("SELECT l[1:2]::VARCHAR AS x FROM (SELECT [1, NULL, 3] AS l)", "[1, NULL]"),
    ("SELECT (1.1 + 2.2)::VARCHAR AS x", "3.3"),
    ("SELECT [1.50, 2]::VARCHAR AS x", "[1.50, 2.00]"),
    ("SELECT 'x' || v AS x FROM (SELECT INTERVAL 25 HOUR AS v)", "x25:00:00"),
    ("SELECT concat(v, '!') AS x FROM (SELECT TIMESTAMP '2024-01-05 08:00:00' AS v)", "2024-01-05 08:00:00!"),
    ("SELECT v->>'a' AS x FROM (SELECT '{\"a\": {\"b\": 1.50}}'::JSON AS v)", '{"b":1.5}'),
    ("SELECT concat(l, [3]) AS x FROM (SELECT [1, 2] AS l)", [1, 2, 3]),
    ("SELECT l || m AS x FROM (SELECT [1] AS l, [2] AS m)", [1, 2]),
    ("SELECT l || NULL AS x FROM (SELECT [1] AS l)", None),
    ("SELECT round(1.005, 2)::VARCHAR AS x", "1.01"),
]


@pytest.mark.parametrize(("sql", "expected"), FORMS)
def test_texts(session: Session, sql: str, expected: object) -> None:
    """A value has the text that DuckDB writes."""
    assert ask(session, sql, dialect="duckdb").rows == [{"x": expected}]
