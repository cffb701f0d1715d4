"""Prompt templates: references to fields, escapes, and names that are missing."""

import pytest

from flightllm.errors import AICallError
from flightllm.functions.template import resolve_template


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Is {review} good?", "Is `review` good?"),
        ("Is { Review } good?", "Is `review` good?"),
        ("{0} and {1}", "`review` and `Movie Info`"),
        ("{Movie Info}", "`Movie Info`"),
        ("{{review}} {review}", "{review} `review`"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{} {'x'}", "{} {'x'}"),
        ("plain", "plain"),
    ],
)
def test_references(template: str, expected: str) -> None:
    """A name in braces becomes a reference, never a value; other braces stay."""
    assert resolve_template(template, ["review", "Movie Info"]) == expected


def test_missing_name() -> None:
    """A missing name is reported with the fields there are and the nearest."""
    with pytest.raises(AICallError, match=r"\{reviw\}.*fields: review, title.*did you mean \{review\}"):
        resolve_template("Is {reviw} good?", ["review", "title"])
    with pytest.raises(AICallError, match="has no fields"):
        resolve_template("Is {x} good?", [])
