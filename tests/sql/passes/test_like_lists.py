"""LIKE ANY has PostgreSQL's values."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'abc' LIKE ANY (ARRAY['a%', 'x'])", True),
        ("'abc' LIKE ANY ('x', '%c')", True),
        ("'abc' LIKE ANY (ARRAY['x', 'y'])", False),
        ("'abc' NOT LIKE ANY (ARRAY['a%', 'x'])", True),
        ("'abc' ILIKE ANY (ARRAY['A%'])", True),
        ("NULL LIKE ANY (ARRAY['a', 'b'])", None),
        ("'b' LIKE ANY (ARRAY['a', NULL])", None),
        ("'b' LIKE ANY (ARRAY['b', NULL])", True),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Each comparison has PostgreSQL's value."""
    assert rows(session, f"SELECT {expression} AS x") == [{"x": value}]


@pytest.mark.parametrize("expression", ["name LIKE ANY (note)", "ai_gen('A word?', note) LIKE ANY ('a', 'b')"])
def test_refused(session: Session, expression: str) -> None:
    """An error names LIKE ANY if its patterns are not a list, or if each pattern would ask a model."""
    with pytest.raises(UnsupportedError, match="LIKE ANY"):
        rows(session, f"SELECT {expression} AS x FROM people")
