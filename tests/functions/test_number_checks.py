"""Numbers that must be in a range."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.number_checks import (
    above_zero,
    element_places,
    not_negative,
    range_buckets,
    subscript_places,
)

_LEAST = -(2**63)


@pytest.mark.parametrize(
    ("check", "columns", "values"),
    [
        (above_zero, ([1.5, None, float("nan")], ["LN", "LN", "LN"]), [1.5, None, float("nan")]),
        (not_negative, ([0, None, 5], ["LEFT", "LEFT", "LEFT"]), [0, None, 5]),
        (subscript_places, ([0, 9, None, 2], [1, None, 1, 3]), [1, 10, None, 3]),
        (element_places, ([1, -3, 0, None], [1, 3, None, 3]), [1, -3, 0, None]),
        (range_buckets, ([5.0, None, 10.0], [[0.0, 10.0], [1.0], [0.0, 10.0]]), [1, None, 2]),
    ],
)
def test_right_numbers(check: Callable[..., pa.Array], columns: tuple[list[object], ...], values: list[object]) -> None:
    """Numbers in range pass, and so do NULLs."""
    assert str(check(*map(pa.array, columns)).to_pylist()) == str(values)


@pytest.mark.parametrize(
    ("check", "columns", "message"),
    [
        (
            above_zero,
            ([1.0, None, -2.0, 0.0], ["LN", "LN", "LOG10", "LN"]),
            "LOG10 takes a number above 0, and not -2.0",
        ),
        (not_negative, ([0, None, -5], ["LEFT", "LEFT", "RIGHT"]), "RIGHT takes a length of 0 or more, and not -5"),
        (subscript_places, ([0, 2, 3], [1, 2, 1]), r"the list has 2 items, and no item \[2\]"),
        (subscript_places, ([-1], [1]), r"no item \[-1\]"),
        (element_places, ([1, 0], [1, 3]), "finds no item 0 in a list of 3"),
        (element_places, ([_LEAST], [1]), f"finds no item {_LEAST} in a list of 1"),
        (element_places, ([-4], [3]), "finds no item -4 in a list of 3"),
        (range_buckets, ([1.0], [[2.0, 1.0]]), "bounds that rise"),
        (range_buckets, ([1.0], [[2.0, None]]), "bounds that rise"),
    ],
)
def test_wrong_numbers(check: Callable[..., pa.Array], columns: tuple[list[object], ...], message: str) -> None:
    """The error has the first number that is out of range."""
    with pytest.raises(SqlError, match=message):
        check(*map(pa.array, columns))
