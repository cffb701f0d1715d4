"""Parts of an interval as PostgreSQL has them: DataFusion counts a year as 360 days."""

import pyarrow as pa

WITH_DAYS, INTERVAL_EPOCH = "__with_days", "__interval_epoch"
"""The names of the functions in SQL."""
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_YEAR_DAYS = 365.25


def with_days(intervals: pa.Array) -> pa.Array:
    """Return intervals whose hours are days where possible, as between two timestamps: `8 days` for `192 hours`."""
    found = (None if one is None else _with_days(*one) for one in intervals.to_pylist())
    return pa.array(found, pa.month_day_nano_interval())


def interval_epoch(intervals: pa.Array) -> pa.Array:
    """Return the seconds of intervals; a year has 365.25 days, and a further month 30 days."""
    found = (None if one is None else _epoch(*one) for one in intervals.to_pylist())
    return pa.array(found, pa.float64())


def _with_days(months: int, days: int, nanos: int) -> tuple[int, int, int]:
    more = abs(nanos) // _DAY * (1 if nanos > 0 else -1)
    return months, days + more, nanos - more * _DAY


def _epoch(months: int, days: int, nanos: int) -> float:
    years = int(months / 12)
    return (years * _YEAR_DAYS + (months - 12 * years) * 30 + days) * 86_400 + nanos / _SECOND
