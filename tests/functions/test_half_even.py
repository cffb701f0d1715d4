"""Halves become the even neighbor."""

import pyarrow as pa

from flightllm.functions.half_even import half_even


def test_halves() -> None:
    """NULL, NaN and the largest doubles stay."""
    found = half_even(pa.array([0.5, 1.5, -2.5, 2.4999, 2.0**52 + 1, None, float("inf")]))
    assert found.to_pylist() == [0.0, 2.0, -2.0, 2.0, 2.0**52 + 1, None, float("inf")]
