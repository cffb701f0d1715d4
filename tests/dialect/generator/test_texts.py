"""LIKE ANY and LIKE ALL of arrays, and lists in concat_ws, have their dialect's values."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'abc' LIKE ANY (ARRAY['a%', 'x'])", True),
        ("'abc' LIKE ANY (ARRAY['x', 'y'])", False),
        ("'abc' NOT LIKE ANY (ARRAY['a%', 'x'])", True),
        ("'abc' ILIKE ANY (ARRAY['x', 'A%'])", True),
        ("'abc' LIKE ALL (ARRAY['a%', '%c'])", True),
        ("'abc' LIKE ALL (ARRAY['a%', 'x'])", False),
        ("'abc' NOT LIKE ALL (ARRAY['a%', 'x'])", False),
        ("'abc' NOT LIKE ALL (ARRAY['y', 'x'])", True),
        ("'b' LIKE ANY (ARRAY['a', NULL])", None),
    ],
)
@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_lists_of_patterns(session: Session, expression: str, value: object, dialect: str) -> None:
    """Each comparison has the value of PostgreSQL and DuckDB."""
    assert ask(session, f"SELECT {expression} AS x", dialect=dialect).rows == [{"x": value}]


@pytest.mark.parametrize("pattern", ["('a%,b%')", "(ARRAY['a!%']) ESCAPE '!'"])
def test_refused_patterns(session: Session, pattern: str) -> None:
    """An error says how to write a list that has no counterpart."""
    with pytest.raises(UnsupportedError, match=r"write x LIKE"):
        ask(session, f"SELECT 'a' LIKE ANY {pattern} AS x", dialect="postgres")


def test_escape_of_a_pattern(session: Session) -> None:
    """SUBSTRING with an escape sign is no call of two arguments; the pattern alone stays a regular expression."""
    for sql in ("substring(name from '%#\"n#\"%' for '#')", "substring(name, '#', '#')"):
        with pytest.raises(UnsupportedError, match="write a regular expression"):
            ask(session, f"SELECT {sql} AS s FROM people", dialect="postgres")
    sql = "SELECT substring('foobar' from 'o(.)b') AS a, substring('foobar' from 2 for 3) AS b"
    assert ask(session, sql, dialect="postgres").rows == [{"a": "o", "b": "oob"}]


def test_collected_lists_in_concat_ws(session: Session) -> None:
    """Spark joins the elements of collected lists."""
    items = "concat_ws(',', sort_array(collect_list(name))) AS a, concat_ws('-', collect_set(note), 'x') AS b"
    found = ask(session, f"SELECT {items} FROM people WHERE id < 3", dialect="spark")
    assert found.rows == [{"a": "Ann,Bob", "b": "likes tea-x"}]
