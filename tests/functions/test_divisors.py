"""A division by zero of doubles is an error where a dialect has it so."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.divisors import divisors


def test_divisors_stay() -> None:
    """Numbers and NULLs stay as they are."""
    given = pa.array([1.5, None, -2.0, float("nan")])
    assert divisors(given) is given


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_is_refused(zero: float) -> None:
    """A zero is an error that says what to write."""
    with pytest.raises(SqlError, match="division by zero: write nullif"):
        divisors(pa.array([1.0, zero]))
