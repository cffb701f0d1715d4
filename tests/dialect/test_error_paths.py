"""Vendors' paths read the value and the error of a call with a flag for errors, wherever the call stands."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask

_FILTER = "AI_FILTER(PROMPT('Is it late? {0}', note), TRUE)"
_CLASSIFY = "AI_CLASSIFY(note, ['a', 'b'], return_error_details => TRUE)"
_EXTRACT = "AI_EXTRACT(text => note, responseFormat => ['city', 'name'], return_error_details => TRUE)"
_QUERY = "ai_query('default', note, failOnError => false)"
_PLAIN = {
    _FILTER: "ai_filter('Is it late? {0}', note)",
    _CLASSIFY: "ai_classify(note, ['a', 'b'])",
    _EXTRACT: "ai_extract(note, ['city', 'name'])['name']",
    _QUERY: "ai_gen(note)",
}


def _values(session: Session, sql: str, dialect: str = "default") -> list[object]:
    return [next(iter(row.values())) for row in ask(session, sql, dialect=dialect).rows]


@pytest.mark.parametrize(
    ("dialect", "call", "value", "error"),
    [
        ("snowflake", _FILTER, "{}:value::BOOLEAN", "{}:error"),
        ("snowflake", _CLASSIFY, "{}:value:labels[0]::STRING", "{}:error::STRING"),
        ("snowflake", _EXTRACT, "{}:value:response:name::STRING", "{}:error"),
        ("databricks", _QUERY, "{}.result", "{}.errorMessage"),
    ],
)
def test_positions(session: Session, dialect: str, call: str, value: str, error: str) -> None:
    """The paths work over a call and over a column with its answer: in SELECT, WHERE, CASE, WITH and a subquery."""
    wanted = _values(session, f"SELECT {_PLAIN[call]} AS x FROM people WHERE note IS NOT NULL ORDER BY id")
    some = "note IS NOT NULL"
    column, failed = value.format("r"), error.format("r")
    inner = f"SELECT id, {call} AS r FROM people WHERE {some}"
    for sql in (
        f"SELECT {value.format(call)} AS x FROM people WHERE {some} ORDER BY id",
        f"SELECT {value.format(call)} AS x FROM people WHERE {some} AND {error.format(call)} IS NULL ORDER BY id",
        (
            f"SELECT CASE WHEN {error.format(call)} IS NULL THEN {value.format(call)} END AS x FROM people WHERE {some}"
            " ORDER BY id"
        ),
        f"WITH c AS ({inner}) SELECT {column} AS x FROM c WHERE {failed} IS NULL ORDER BY id",
        (
            f"SELECT x FROM (SELECT id, CASE WHEN {failed} IS NULL THEN {column} END AS x FROM ({inner}) AS q) AS z"
            " ORDER BY id"
        ),
    ):
        assert _values(session, sql, dialect) == wanted, sql
    assert set(_values(session, f"SELECT {error.format(call)} AS x FROM people", dialect)) == {None}


def test_joins(session: Session) -> None:
    """A path in the condition of a join is a truth value."""
    call = "AI_FILTER(PROMPT('Same? {0} {1}', p.note, q.note), TRUE)"
    some = "WHERE p.id < 3 AND q.id < 4 ORDER BY p.id, q.id"
    sql = f"SELECT p.id * 10 + q.id AS x FROM people p JOIN people q ON {call}:value {some}"
    plain = "ai_filter('Same? {0} {1}', p.note, q.note)"
    assert _values(session, sql, "snowflake") == _values(
        session, f"SELECT p.id * 10 + q.id AS x FROM people p JOIN people q ON {plain} {some}"
    )


def test_star_of_an_answer(session: Session) -> None:
    """The star of a flagged answer has its two fields by the vendor's names."""
    rows = ask(session, f"SELECT r.* FROM (SELECT {_QUERY} AS r FROM people) AS q", dialect="databricks").rows
    assert set(rows[0]) == {"result", "errorMessage"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AI.GENERATE(note).status AS x FROM people",
        "SELECT CASE WHEN AI.GENERATE_BOOL(note).status = '' THEN '' END AS x FROM people",
        "SELECT (AI.GENERATE_INT(note, endpoint => 'default')).status AS x FROM people",
        "SELECT '' AS x FROM people WHERE AI.GENERATE(note, output_schema => 'city STRING').status = ''",
    ],
)
def test_status(session: Session, sql: str) -> None:
    """The status of BigQuery's calls is empty for calls without an error."""
    assert _values(session, sql, "bigquery") == [""] * 9


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("bigquery", "SELECT AI.GENERATE(note).full_response FROM people", "full_response is not returned"),
        ("databricks", f"SELECT {_QUERY}:response FROM people", "response"),
        ("snowflake", f"SELECT r:nope FROM (SELECT {_FILTER} AS r FROM people) q", "nope"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """A field that the answer lacks is an error that names it."""
    with pytest.raises(SqlError, match=said):
        ask(session, sql, dialect=dialect)
