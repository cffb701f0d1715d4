"""Boolean values in texts."""

import pytest

from flightllm.common.switches import switch


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("on", True), ("T", True), ("Yes", True), ("1", True), ("OF", False), ("f", False), ("n", False), ("0", False)],
)
def test_read(text: str, wanted: bool) -> None:
    """A word can be shortened as long as it is clear, in any case."""
    assert switch(text) is wanted


@pytest.mark.parametrize("text", ["", "o", "onn", "2", " on"])
def test_other_texts(text: str) -> None:
    """Another text is neither."""
    assert switch(text) is None
