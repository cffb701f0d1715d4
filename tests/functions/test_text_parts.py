"""Matches and parts of texts are those of DuckDB, which the tests have from DuckDB 2.0."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.text_parts import all_matches, split, split_by_pattern


@pytest.mark.parametrize(
    ("pattern", "group", "lists"),
    [
        ("[0-9]+", 0, [["1", "22"], [], None, []]),
        ("([a-z])([0-9]+)", 2, [["1", "22"], [], None, []]),
        ("([a-z])([0-9]+)", 0, [["a1", "b22"], [], None, []]),
        ("(?i)X|(y)", 1, [[], [], None, ["", "y", "", ""]]),
        (None, 0, [None] * 4),
    ],
)
def test_all_matches(pattern: str | None, group: int, lists: list[object]) -> None:
    """All matches of each text, or the texts of one group."""
    texts = pa.array(["a1b22", "", None, "xyz xX"[:5] + "x"], pa.string())
    given = pa.array([pattern] * 4, pa.string()), pa.array([group] * 4, pa.int64())
    assert all_matches(texts, *given).to_pylist() == lists


def test_patterns_of_columns() -> None:
    """Each row can have its own pattern."""
    found = all_matches(pa.array(["aab", "aab"]), pa.array(["a", "b"]), pa.array([0, 0], pa.int64()))
    assert found.to_pylist() == [["a", "a"], ["b"]]


@pytest.mark.parametrize(("pattern", "group"), [("(", 0), ("a", 3), ("a", 9), ("x*", 0)])
def test_refused(pattern: str, group: int) -> None:
    """A pattern that RE2 cannot read, a missing group, and empty matches are errors."""
    with pytest.raises(SqlError):
        all_matches(pa.array(["a"]), pa.array([pattern]), pa.array([group], pa.int64()))


def test_split() -> None:
    """An empty separator gives the characters, and NULL the whole text."""
    texts, separators = ["a,b,,c", "abc", "", "", None, "a"], [",", "", ",", "", ",", None]
    found = split(pa.array(texts, pa.string()), pa.array(separators, pa.string())).to_pylist()
    assert found == [["a", "b", "", "c"], ["a", "b", "c"], [""], [], None, ["a"]]


def test_split_by_pattern() -> None:
    """The texts between matches."""
    texts, patterns = ["a1b22c", "ab", None], ["[0-9]+", "", "a"]
    found = split_by_pattern(pa.array(texts, pa.string()), pa.array(patterns, pa.string())).to_pylist()
    assert found == [["a", "b", "c"], ["a", "b"], None]


@pytest.mark.parametrize("pattern", ["|", "x*", r"\b"])
def test_separators_without_letters(pattern: str) -> None:
    """A separator that matches an empty text is refused; Arrow's own function would never end."""
    with pytest.raises(SqlError, match="matches empty texts"):
        split_by_pattern(pa.array(["a b"]), pa.array([pattern]))
