"""Texts from elsewhere: what Unicode refuses is mended or refused, and NUL stays. The start that two texts share."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.common.text import check_well_formed, excerpt, shared_start, well_formed, well_formed_value
from flightllm.errors import InvalidInputError

_ITEMS = st.lists(st.integers(0, 1), max_size=40)


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


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        *[("", "", 0), ("a", "", 0), ("abc", "abc", 3), ("abc", "abd", 2), ("xbc", "abc", 0), ("ab", "abcd", 2)],
        *[([], [1], 0), ([1, 2, 3], [1, 2, 4], 2), ((1, 2), (1, 2, 4), 2), ((1, 2, 3), [1, 2, 4], 2)],
    ],
)
def test_shared_start(left: Sequence[object], right: Sequence[object], shared: int) -> None:
    """Texts are compared by characters, and other sequences by items, in either order."""
    assert shared_start(left, right) == shared_start(right, left) == shared


@given(_ITEMS, _ITEMS, _ITEMS, st.integers(0, 100))
def test_any_guess_gives_the_same(start: list[int], left: list[int], right: list[int], guess: int) -> None:
    """The shared start ends at the first difference; a guess that is too low or too high changes nothing."""
    one, other = start + left, start + right
    equal = [a == b for a, b in zip(one, other, strict=False)]
    expected = [*equal, False].index(False)
    assert shared_start(one, other, guess) == expected
    assert shared_start("".join(map(str, one)), "".join(map(str, other)), guess) == expected
    assert shared_start(tuple(one), other, guess) == expected
