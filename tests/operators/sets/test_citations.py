"""Numbers of rows in a model's text."""

import pytest

from flightllm.operators.sets.citations import Note, cited

ROWS = {1: 10, 2: 20, 3: 30}


def _rows(note: Note) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.text, one.rows) for one in note.sentences]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Good screen [1]. Bad battery [2, 3].", [("Good screen.", (10,)), ("Bad battery.", (20, 30))]),
        ("Good screen. [1] Bad battery. [2]", [("Good screen.", (10,)), ("Bad battery.", (20,))]),
        ("- Good [1]\n- Bad [3]\n", [("- Good", (10,)), ("- Bad", (30,))]),
        ("Both [1][2] say so.", [("Both say so.", (10, 20))]),
        ("All of them [1-3].", [("All of them.", (10, 20, 30))]),
        ("Some [23, 2-3].", [("Some.", (20, 30))]),
        ("Others [13, 3-3, 2].", [("Others.", (30, 20))]),
        ("\u597d\u30101\u3011\u3002\u5dee[2]\u3002", [("\u597d\u3002", (10,)), ("\u5dee\u3002", (20,))]),
        ("Cheap, e.g. 3.5 dollars [text 2].", [("Cheap, e.g. 3.5 dollars.", (20,))]),
        ("No number here. A wrong one [7]. A right one [2, 9]!", [("A right one!", (20,))]),
        ("[1, 2]", []),
        ("Nothing at all", []),
        ("", []),
    ],
)  # fmt: skip
def test_cited(text: str, found: list[tuple[str, tuple[int, ...]]]) -> None:
    """Sentences have the rows of their numbers; invented numbers and sentences without a number are dropped."""
    assert _rows(cited(text, ROWS)) == found


def test_shown_with_other_numbers() -> None:
    """The text is the same with the numbers of another prompt before the last points."""
    note = cited("Good screen [1]. Bad battery [2, 3].\nFine!? [3]", ROWS)
    assert note.rows == [10, 20, 30]
    assert note.shown({10: 3, 20: 1, 30: 2}) == "Good screen [3]. Bad battery [1, 2].\nFine [2]!?"


def test_a_wide_range() -> None:
    """A range that a model invents takes no memory."""
    assert cited("All [1-999999999999].", ROWS).rows == [10, 20, 30]
