"""A dot after a bracket reads a field of a struct."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("s[1].label", "b"),
        ("v.s[1].label", "b"),
        ("s[2].label", None),
        ("s[1].inner.x", 1),
        ("s[1].list[2].y", 4),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Fields of elements have their values; a missing element has NULL."""
    given = "[{'label': 'b', 'inner': {'x': 1}, 'list': [{'y': 3}, {'y': 4}]}]"
    assert rows(session, f"SELECT {expression} AS x FROM (SELECT {given} AS s) v") == [{"x": value}]


@pytest.mark.parametrize(
    "written", ["(s).label", "({'label': 'b'}).label", "{'label': 'b'}.label", "max_by(s, 1).label"]
)
def test_other_values(session: Session, written: str) -> None:
    """A field of a value in brackets, of a literal and of a function's value is read too."""
    assert rows(session, f"SELECT {written} AS x FROM (SELECT {{'label': 'b'}} AS s) v") == [{"x": "b"}]


def test_answers(session: Session) -> None:
    """The answer of an AI call is read as before."""
    call = "ai_filter('Is it?', note, confidence => true)"
    found = rows(session, f"SELECT {call}.answer AS x FROM people")
    assert {type(row["x"]) for row in found} == {bool, type(None)}
