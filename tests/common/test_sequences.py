"""The length of the start that two sequences share."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.common.sequences import shared_start

_ITEMS = st.lists(st.integers(0, 1), max_size=40)


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
