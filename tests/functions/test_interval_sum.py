"""The parts of a sum of intervals make one interval."""

from decimal import Decimal

import pyarrow as pa

from flightllm.functions.interval_sum import interval_sum


def test_interval_sum() -> None:
    """Nanoseconds past 64 bits become days, and NULL stays NULL."""
    day = 86_400_000_000_000
    nanos = pa.array([Decimal(5), Decimal(-200_000 * day - 7), None], pa.decimal128(38, 0))
    found = interval_sum(pa.array([1, 2, 3]), nanos).to_pylist()
    assert [None if one is None else tuple(one) for one in found] == [(0, 1, 5), (0, -199_998, -7), None]
