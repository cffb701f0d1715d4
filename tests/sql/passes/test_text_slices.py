"""Parts by brackets: of texts, and of lists without a begin or an end."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask

FORMS = [
    ("s[1]", "H"),
    ("s[-1]", "o"),
    ("s[2:4]", "ell"),
    ("s[3:]", "llo"),
    ("s[:-2]", "Hell"),
    ("s[-3:]", "llo"),
    ("s[9]", ""),
    ("l[2:]", [2, 3]),
    ("l[:-2]", [1, 2]),
    ("l[:]", [1, 2, 3]),
    ("l[2]", 2),
    ("upper(s)[1:2]", "HE"),
    ("(l)[2:][1]", 2),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
@pytest.mark.parametrize("dialect", ["default", "duckdb"])
def test_parts(session: Session, text: str, expected: object, dialect: str) -> None:
    """A bracket counts letters of a text and elements of a list, from 1 or from the end."""
    sql = f"SELECT {text} AS x FROM (SELECT 'Hello' AS s, [1, 2, 3] AS l) AS q"
    assert ask(session, sql, dialect=dialect).rows == [{"x": expected}]


def test_null(session: Session) -> None:
    """A part of NULL is NULL."""
    assert ask(session, "SELECT s[2:] AS x FROM (SELECT CAST(NULL AS TEXT) AS s) AS q").rows == [{"x": None}]
