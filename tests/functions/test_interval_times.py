"""Products of intervals carry fractions to days and seconds, as in PostgreSQL."""

import pyarrow as pa
import pytest

from flightllm.functions.interval_times import interval_times

HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("interval", "factor", "divisor", "wanted"),
    [
        ((1, 0, 0), 1.5, 1, (1, 15, 0)),
        ((0, 1, 0), 0.5, 1, (0, 0, 12 * HOUR)),
        ((12, 0, 0), 1, 5, (2, 12, 0)),
        ((0, 0, 10_000_000_000), 1, 3, (0, 0, 3_333_333_000)),
        ((1, 2, HOUR), -1, 1, (-1, -2, -HOUR)),
        ((1, 1, 0), 0.1, 1, (0, 3, 8_640_000_000_000)),
    ],
)
def test_products(interval: tuple[int, int, int], factor: float, divisor: float, wanted: tuple[int, int, int]) -> None:
    """Each part is that of PostgreSQL."""
    intervals = pa.array([interval, None], pa.month_day_nano_interval())
    found = interval_times(intervals, pa.array([factor, 1.0]), pa.array([float(divisor), 1.0]))
    assert [row and tuple(row) for row in found.to_pylist()] == [wanted, None]
