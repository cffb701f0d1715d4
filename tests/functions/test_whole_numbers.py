"""Sums and products of 64-bit numbers that leave the range."""

import random

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.whole_numbers import ADDED, FUNCTIONS, MULTIPLIED, SUBTRACTED, summed

_RUN = {one.name: one.checked for one in FUNCTIONS}
_MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("name", "row", "result"),
    [
        (ADDED, (_MOST, 1), 1 << 63),
        (SUBTRACTED, (-_MOST, 2), -_MOST - 2),
        (MULTIPLIED, (-_MOST, 3), -3 * _MOST),
    ],
)
def test_first_wrong_row(name: str, row: tuple[int, int], result: int) -> None:
    """The error has the exact number of the first row that leaves the range; NULL is in no range."""
    left, right = (pa.array([1, None, one], pa.int64()) for one in row)
    with pytest.raises(SqlError, match=f"the number {result} is out of range of its type: write a wider type"):
        _RUN[name](left, right)
    assert _RUN[name](left[:2], right[:2]).to_pylist()[1] is None


def test_sums() -> None:
    """A wrapped sum is an error with the exact number, for numbers of every size; a sum that fits is as it was."""
    chance = random.Random(5)  # noqa: S311 - the same numbers in each run
    for _ in range(500):
        size = chance.randrange(1, 64)
        numbers = [chance.randrange(-(1 << size), 1 << size) for _ in range(chance.randrange(1, 40))]
        if size == 63:  # of one sign, so that many sums leave the range several times
            numbers = [abs(one) for one in numbers]
        exact, near = sum(numbers), sum(map(float, numbers))
        wrapped = (exact + (1 << 63)) % (1 << 64) - (1 << 63)
        columns = pa.array([None, wrapped], pa.int64()), pa.array([None, near], pa.float64())
        if wrapped == exact:
            assert summed(*columns).to_pylist() == [None, exact]
        else:
            with pytest.raises(SqlError, match=f"the number {exact} is out of range"):
                summed(*columns)
