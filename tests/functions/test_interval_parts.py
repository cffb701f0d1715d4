"""Parts of intervals are those of PostgreSQL."""

import pyarrow as pa

from flightllm.functions.interval_parts import interval_epoch, with_days

HOUR = 3_600_000_000_000
KIND = pa.month_day_nano_interval()


def test_days() -> None:
    """24 hours become a day, also before zero."""
    found = with_days(pa.array([(0, 0, 49 * HOUR), (1, 2, -25 * HOUR), (0, 0, 0), None], KIND))
    assert found.to_pylist() == pa.array([(0, 2, HOUR), (1, 1, -HOUR), (0, 0, 0), None], KIND).to_pylist()


def test_seconds() -> None:
    """A year has 365.25 days, and a month 30."""
    found = interval_epoch(pa.array([(14, 2, HOUR), (-12, 0, 0), None], KIND))
    assert found.to_pylist() == [(365.25 + 60 + 2) * 86_400 + 3_600, -365.25 * 86_400, None]
