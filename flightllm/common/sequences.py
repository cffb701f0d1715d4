"""Compare the starts of texts and of token sequences."""

from collections.abc import Sequence
from typing import Any

_FIRST_STEP = 4
"""The items of the first step in the search for the end of a shared start."""


def shared_start(left: Sequence[Any], right: Sequence[Any], guess: int = 0) -> int:
    """Return how many leading items two texts, lists or tuples share, such as characters or tokens.

    A `guess` at or a little below the answer saves most of the work: prompts of one call share about the same prefix.
    Doubling steps find a range with the first difference. Halving then finds the difference in this range. Python
    compares slices many times faster than it loops over items.
    """
    if type(left) is not type(right):
        left, right = list(left), list(right)
    most = min(len(left), len(right))
    low = guess if guess <= most and left[:guess] == right[:guess] else 0
    step = _FIRST_STEP
    while left[low : low + step] == right[low : low + step]:
        low += step
        if low >= most:
            return most
        step *= 2
    high = min(low + step, most)
    while low < high:  # both agree up to `low`, and differ before the end of the range if not all of it agrees
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
