"""Models write the numbers of rows in many forms."""

import pytest

from flightllm.operators.sets.citation_forms import in_one_form
from flightllm.operators.sets.citations import cited

ROWS = {number: number for number in range(1, 10)}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Good **[1]**.", "Good [1]."),
        ("Good. **[1]** Bad. `[2]`", "Good [1]. Bad [2]."),
        ("Good [1], [2].", "Good [1, 2]."),
        ("Good [Text 1, Text 3].", "Good [1, 3]."),
        ("Good [1, 2, and 3].", "Good [1, 2, 3]."),
        ("Good [texts 2 to 4].", "Good [2, 3, 4]."),
        ("Good (Texts: [1], [2]).", "Good [1, 2]."),
        ("Good. ([1], [2]) Bad. ([3])", "Good [1, 2]. Bad [3]."),
        ("Good. [1]. Bad. [2].", "Good [1]. Bad [2]."),
        ("Good [^1]. Bad [[2]]. Odd \\[3\\].", "Good [1]. Bad [2]. Odd [3]."),
        ("Good (1, 3). Bad (text 2).", "Good [1, 3]. Bad [2]."),
        ("Good in two (2) ways [1].", "Good in two (2) ways [1]."),
        ("[1] Good. [2] Bad.", "Good [1].\nBad [2]."),
        ("[1] Good. [Full review in Spanish]\n[2] Bad.", "Good [1]. Bad [2]."),
        ("1. Good. [1]\n2. Bad. [2]", "Good [1].\nBad [2]."),
        ("**Tea**: good [#1].", "**Tea**: good [1]."),
        ("Rated [sic] good [1-2].", "Rated [sic] good [1, 2]."),
    ],
)  # fmt: skip
def test_forms(text: str, shown: str) -> None:
    """Each form is read as plain brackets, and nothing of it stays in the text."""
    note = cited(text, ROWS)
    assert note.shown(ROWS) == shown


@pytest.mark.parametrize("text", ["", "No numbers.", "A year (2019) and a list [a, b].", "[", "[1", "x" * 10_000 + "["])
def test_other_texts_stay(text: str) -> None:
    """A text without numbers of rows is the same."""
    assert in_one_form(text) == text
