"""Minima of ranges, against a search of each range."""

import numpy as np

from flightllm.prompt_order.range_minimum import RangeMinimum


def test_every_range_of_some_numbers() -> None:
    """All ranges of 13 numbers, and no range."""
    numbers = np.random.default_rng(0).random(13)
    low, high = np.triu_indices(13, 1)
    found = RangeMinimum(numbers).between(low, high)
    assert found.tolist() == [numbers[start + 1 : end + 1].min() for start, end in zip(low, high, strict=True)]
    assert not len(RangeMinimum(numbers).between(low[:0], high[:0]))
