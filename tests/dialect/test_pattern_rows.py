"""PostgreSQL's functions that make rows of the matches of a pattern."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT m AS r FROM regexp_matches('ab12cd34', '[0-9]+', 'g') AS m", [["12"], ["34"]]),
        ("SELECT m AS r FROM regexp_matches('ab12cd34', '([A-Z])([0-9])', 'i') AS m", [["b", "1"]]),
        ("SELECT (regexp_matches('a1b2', '([a-z])([0-9])', 'g'))[2] AS r", ["1", "2"]),
        ("SELECT m[1] AS r FROM people, regexp_matches(name, '[A-B]') AS m ORDER BY id", ["A", "B", "A", "A"]),
        (r"SELECT regexp_split_to_table('a  b', '\s+') AS r", ["a", "b"]),
        ("SELECT n AS r FROM regexp_split_to_table('a,b', ',') WITH ORDINALITY AS t(x, n)", [1, 2]),
    ],
)
def test_rows(session: Session, dialect: str, query: str, wanted: list[object]) -> None:
    """Each match or part is a row."""
    assert [row["r"] for row in ask(session, query, dialect=dialect).rows] == wanted


def test_one_match(session: Session) -> None:
    """In postgres, the function returns rows in SELECT too."""
    found = ask(session, "SELECT regexp_matches('foobar', '(o)(b)') AS r", dialect="postgres").rows
    assert found == [{"r": ["o", "b"]}]


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM regexp_matches('a', 'a', name)", "flags"),
        ("SELECT * FROM regexp_matches('a', '(b)?a', 'g')", "write (a|b)"),
    ],
)
def test_errors(session: Session, dialect: str, query: str, said: str) -> None:
    """Unknown flags and groups without a match are refused."""
    with pytest.raises(FlightLLMError) as failed:
        ask(session, query, dialect=dialect)
    assert said in str(failed.value)
