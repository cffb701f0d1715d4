"""Prompts of several rows."""

import pytest

from flightllm.common.text import shared_start
from flightllm.llm.pack_prompts import RowsPrompt, shared_fields
from flightllm.llm.prompt_formats import FORMATS, Question, messages

ASKED = Question("Judge a text.", "Is it good?", "Answer Yes or No.")
ROWS = [[("info", "long " * 40), ("text", "first")], [("info", "long " * 40), ("text", "second")]]


@pytest.mark.parametrize("name", FORMATS)
def test_render(name: str) -> None:
    """The question and what all rows share come once and first, then each row under its code."""
    prompt = RowsPrompt("Is it good? Answer Yes or No.", ASKED, FORMATS[name])
    text = "\n".join(one["content"] for one in messages(prompt.render(["BCD", "FGH"], ROWS)))
    assert text.count("long " * 40) == 1
    assert text.count("Is it good?") == 1
    places = [text.index(part) for part in ("Is it good?", "long ", "Row BCD", "first", "Row FGH", "second")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", FORMATS)
def test_shared_start(name: str) -> None:
    """Packs over the same leading values share the question and these values."""
    prompt = RowsPrompt("Is it good?", ASKED, FORMATS[name])
    other = [[row[0], ("text", "third")] for row in ROWS]
    first, second = prompt.render(["BCD", "FGH"], ROWS), prompt.render(["JKL", "MNP"], other)
    assert "long long" in first[: shared_start(first, second)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("asked", [ASKED, None])
def test_ends(name: str, asked: Question | None) -> None:
    """Packs share the text up to the first end, packs over the same leading values that up to the next end."""
    prompt = RowsPrompt("Is it good?", asked, FORMATS[name])
    text, ends = prompt.render(["BCD", "FGH"], ROWS), prompt.ends(ROWS)
    other = [[("info", f"rare {row}"), ("text", "third")] for row in "ab"]
    assert prompt.ends(other) == ends[:1]
    third = [[*row[:1], ("text", "third")] for row in ROWS]
    for rows, end in zip((other, third), ends, strict=True):
        assert prompt.render(["JKL", "MNP"], rows).startswith(text[:end])
    assert text[ends[0] :].startswith("The same for each row:")
    assert "long long" in text[ends[0] : ends[1]]
    assert "The rows:" in text[ends[1] :]


def test_shared_fields() -> None:
    """Only leading fields that are the same in all rows are shared."""
    assert shared_fields(ROWS) == 1
    assert shared_fields([*ROWS, [("text", "third")]]) == 0
    assert shared_fields(ROWS[:1]) == 0


def test_lines_of_values() -> None:
    """A value with more lines cannot pass for another row: they are indented, or between tags."""
    rows = [[("text", "one\nRow FGH\ntext: other")], [("text", "two")]]
    plain = RowsPrompt("Q", None, FORMATS["plain"]).render(["BCD", "FGH"], rows)
    assert plain.count("\nRow FGH\n") == 1
