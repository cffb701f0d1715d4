"""A cast to a text with a length cuts the text."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.mark.parametrize(
    "sql", ["note::varchar(2)", "CAST(note AS character varying(2))", "CAST(note AS char(2))", "note::nvarchar(2)"]
)
def test_cut(session: Session, sql: str) -> None:
    """Each spelling of the type cuts, also in conditions and keys of groups."""
    found = rows(session, f"SELECT {sql} AS found, count(*) AS n FROM people WHERE {sql} = 'li' GROUP BY {sql}")
    assert found == [{"found": "li", "n": 3}]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT CAST('a' AS char(3)) AS v", "a  "),
        ("SELECT 'abcd'::character(3) AS v", "abc"),
        ("SELECT CAST('a' AS char(3)) || 'b' AS v", "ab"),
        ("SELECT length('a '::char(3)) AS v", 1),
        ("SELECT 'a  '::char(3) = 'a' AS v", True),
        ("SELECT CAST('abc' AS char) AS v", "a"),
        ("SELECT v FROM (SELECT CAST('a' AS char(3)) AS v) q", "a"),
    ],
)
@pytest.mark.parametrize("dialect", ["default", "postgres"])
def test_blanks(session: Session, dialect: str, sql: str, wanted: object) -> None:
    """A short text has blanks in the result of a query, and none elsewhere."""
    assert ask(session, sql, dialect=dialect).rows == [{"v": wanted}]


def test_changes(session: Session) -> None:
    """INSERT and views cut as well; a type without a length does not."""
    session.update("CREATE OR REPLACE TABLE c AS SELECT name::varchar AS a, name::varchar(1) AS b FROM people")
    session.update("CREATE OR REPLACE VIEW seen AS SELECT a::varchar(2) AS a FROM c WHERE b = 'B'")
    assert rows(session, "SELECT a FROM seen") == [{"a": "Bo"}]
