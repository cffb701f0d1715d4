"""Texts from elsewhere: what Unicode does not allow is mended or refused, and NUL stays."""

import pytest

from flightllm.common.text import check_well_formed, excerpt, well_formed, well_formed_value
from flightllm.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("plain", "plain"),
        ("é 😀 \0", "é 😀 \0"),
        ("a\ud800b", "a�b"),
        ("\udc00\ud83d", "��"),
        ("\ud83d\ude00", "😀"),  # both halves, as JSON decoders that join none leave them
    ],
)
def test_well_formed(text: str, mended: str) -> None:
    """Each lone surrogate becomes U+FFFD; all else is the same."""
    assert well_formed(text) == mended
    assert well_formed_value({text: [text, 1, None]}) == {mended: [mended, 1, None]}


def test_refused() -> None:
    """What a person or program wrote is refused, with the place."""
    check_well_formed("é", "the text")
    with pytest.raises(InvalidInputError, match=r"the text has half of a surrogate pair, U\+D800, as character 3"):
        check_well_formed("é \ud800", "the text")


def test_excerpt() -> None:
    """A text from elsewhere is one short line."""
    assert excerpt("a\n\tb\0\ud800") == "a b �"
    assert len(excerpt("x y " * 1_000)) < 310
