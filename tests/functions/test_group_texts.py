"""The texts of a group as one text."""

import pyarrow as pa
import pytest

from flightllm.functions.group_texts import group_keyed_texts, group_texts, keyed_texts, read_group


def test_texts_of_groups() -> None:
    """Texts are sorted, NULLs and blank texts are left out, and a group without texts is NULL."""
    lists = pa.array([["b", None, "a", " ", "b"], [None], [], None, ["\n"]], pa.list_(pa.string()))
    first, *others = group_texts(lists).to_pylist()
    assert read_group(first) == [("a", ["a"]), ("b", ["b", "b"])]
    assert others == [None] * 4


def test_separators_in_texts() -> None:
    """A text with the characters between texts is still one text."""
    (group,) = group_texts(pa.array([["a\x1eb\x1fc", "\x1dx", "\x1c\x1fx"]], pa.list_(pa.string()))).to_pylist()
    assert [text for text, _ in read_group(group)] == ["\x1c\x1fx", "\x1dx", "a b\x1fc"]


def test_keys() -> None:
    """Rows of one text have their keys; a text without a key has an empty one, and a NULL text has none."""
    keyed = keyed_texts(pa.array(["a", "b", "a", None, "c"]), pa.array(["2", "1", "1\x1f", "9", None]))
    (group,) = group_keyed_texts(pa.array([keyed.to_pylist()], pa.list_(pa.string()))).to_pylist()
    assert read_group(group) == [("a", ["1 ", "2"]), ("b", ["1"]), ("c", [""])]


def test_other_texts_are_no_groups() -> None:
    """A text that no aggregate made is refused."""
    with pytest.raises(ValueError, match="not a group"):
        read_group("a")
