"""Several orders of some items become one order."""

import pytest

from flightllm.operators.sets.rank_votes import by_votes


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        pytest.param([[3, 1], [1, 2]], [3, 1, 2], id="a chain"),
        pytest.param([[1, 2], [2, 3], [3, 1]], [1, 2, 3], id="a cycle keeps the given order"),
        pytest.param([[1, 2], [2, 3], [3, 1], [3, 1]], [2, 3, 1], id="a cycle with one more vote"),
        pytest.param([[2, 1]], [2, 1, 3], id="an item without a vote comes last"),
        pytest.param([], [1, 2, 3], id="no votes"),
        pytest.param([[1, 2, 3], [2, 1, 3], [2, 1, 3]], [2, 1, 3], id="most votes"),
    ],
)
def test_order(orders: list[list[int]], expected: list[int]) -> None:
    """Votes are weighed together, and ties keep the given order."""
    assert by_votes([1, 2, 3], orders) == expected
