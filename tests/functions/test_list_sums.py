"""Sums of lists of texts of numbers are exact."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.list_sums import checked_sums, exact_sums
from flightllm.functions.rows import TEXTS


def test_exact() -> None:
    """A sum has all digits; NULLs do not count."""
    lists = pa.array([["9007199254740993", None, "0"], ["1.10", "2.2"], [None], [], None], TEXTS)
    assert exact_sums(lists).to_pylist() == ["9007199254740993", "3.30", None, None, None]


def test_checked() -> None:
    """Doubles have the sum of doubles, and decimals the nearest double."""
    types = pa.array(["List(Float64)", "List(Decimal128(3, 1))", "List(Int64)", "List(Null)"])
    lists = pa.array([["0.1", "0.2"], ["0.1", "0.2"], ["1", None], [None]], TEXTS)
    assert checked_sums(lists, types).to_pylist() == [0.1 + 0.2, 0.3, 1.0, None]


def test_refused() -> None:
    """A whole number that no double is gives an error."""
    with pytest.raises(SqlError, match="9007199254740993"):
        checked_sums(pa.array([["9007199254740993"]], TEXTS), pa.array(["List(non-null Int64)"]))
