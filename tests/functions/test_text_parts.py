"""Matches and parts of texts are those of DuckDB, which the tests have from DuckDB 2.0."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flightllm.errors import SqlError
from flightllm.functions.java_texts import split_at_most
from flightllm.functions.text_parts import all_matches, nth_replaced, split, split_by_pattern


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


def test_rows_of_one_pattern_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow is called once for each pattern, and not once for each row."""
    calls = []
    replace = pc.replace_substring_regex

    def counted(*given: Any, **options: Any) -> pa.Array:
        calls.append(given[1])
        return replace(*given, **options)

    monkeypatch.setattr(pc, "replace_substring_regex", counted)
    texts = pa.array(["a1b22c", None, "1x2", "é3"] * 5)
    patterns, ones = pa.array(["[0-9]", "[0-9]", "x", "[0-9]"] * 5), pa.array([1] * 20)
    starts, occurrences = pa.array([1, 1, 1, 2] * 5), pa.array([2, 1, 0, 1] * 5)
    found = nth_replaced(texts, patterns, pa.array(["<\\0>"] * 20), starts, occurrences)
    assert found.to_pylist() == ["a1b<2>2c", None, "1<x>2", "é<3>"] * 5
    parts = split_at_most(texts, patterns, pa.array([2] * 20)).to_pylist()
    assert parts == [["a", "b22c"], None, ["1", "2"], ["é", ""]] * 5
    assert sorted(calls) == ["([0-9])", "(x)", "[0-9]", "x"]
    late = nth_replaced(pa.array(["\ue000a1"]), patterns[:1], pa.array(["b"]), pa.array([3]), ones[:1])
    assert late.to_pylist() == ["\ue000ab"]  # a sign before the start is not searched
