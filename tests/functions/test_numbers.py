"""Numbers in the texts of answers."""

import pytest

from flightllm.functions.numbers import read_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4.0),
        ("4.", 4.0),
        ("Rating: 4.5", 4.5),
        ("4,5", 4.5),
        ("0,125", 0.125),
        ("**4** stars", 4.0),
        ("minus: -3", -3.0),
        ("\u22123", -3.0),
        ("$1,234.50", 1234.5),
        ("1.234,5", 1234.5),
        ("1,234", 1234.0),
        ("1.234", 1.234),
        ("1.234.567", 1_234_567.0),
        ("1e3", 1000.0),
        ("45%", 45.0),
    ],
)
def test_one_number(text: str, number: float) -> None:
    """The one number in a text is its value, however people write it."""
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "four", "4/5", "3-4", "4 out of 5", "2024-01-02", "1.2.3", "4,5,6", "GPT4", "1e999", "4½", "٣ 4", "9" * 400],
)
def test_no_number(text: str) -> None:
    """A text without a number, with several, or with one that is too large, is an error."""
    with pytest.raises(ValueError, match="one number"):
        read_number(text)
