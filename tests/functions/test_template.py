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
        ("{ } {\na\n b}", "{ } {\na\n b}"),
        ("{\treview\n}", "`review`"),
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


@pytest.mark.parametrize(
    ("template", "fields", "expected"),
    [
        (
            "Given {movie information} and {review}, {movie information}?",
            ["movie_info", "review_content"],
            "Given `movie_info` and `review_content`, `movie_info`?",
        ),
        ("{film} {x}", ["x", "title"], "`title` `x`"),
        ("{film} {0}", ["x", "title"], "`title` `x`"),
        ("{Film} {opinion} {film}", ["a", "b"], "`a` `b` `a`"),
        ("{{film}} {opinion}", ["a"], "{film} `a`"),
        ("{film}", ["a", "b"], "`a`"),
    ],
)
def test_names_by_position(template: str, fields: list[str], expected: str) -> None:
    """Names of no field mean, in their order, the fields that nothing else in the prompt refers to."""
    assert resolve_template(template, fields) == expected


@pytest.mark.parametrize(
    ("template", "fields", "message"),
    [
        ("{film} {opinion}", ["a"], r"\{film\}.*fields: a"),
        ("{film} {x}", ["x"], r"\{film\}.*fields: x"),
        ("{film} {0} {opinion}", ["x", "title"], r"\{film\}"),
        ("{5}", ["x"], r"\{5\}"),
        ("{movie_inof}", ["movie_info"], r"did you mean \{movie_info\}"),
        ("{nmae}", ["name"], r"did you mean \{name\}"),
        ("{titel} {x}", ["x", "y", "title"], r"did you mean \{title\}"),
        ("{film} {review}", ["title", "review_text"], r"did you mean \{review_text\}"),
    ],
)
def test_names_of_nothing(template: str, fields: list[str], message: str) -> None:
    """Too many names, a number that is none, and a field's name misspelt or nearer to another are errors."""
    with pytest.raises(AICallError, match=message):
        resolve_template(template, fields)


@pytest.mark.parametrize("template", ["{" + " " * 100_000, "{a" * 100_000, "{" + "a " * 100_000 + "'}"])
def test_braces_without_end(template: str) -> None:
    """A brace that nothing closes is read once: blanks after it could be divided in as many ways as their cube."""
    assert resolve_template(template, ["a"]) == template


def test_long_missing_names() -> None:
    """A name of a megabyte is not compared with another in full."""
    name = "".join(map(chr, range(0x4E00, 0x5200))) * 200
    with pytest.raises(AICallError, match="is not a field of the call"):
        resolve_template(f"{{{name}}} {{b}}", [name[::-1]])
    assert resolve_template(f"{{{name}}}", [name[::-1]]) == f"`{name[::-1]}`"
