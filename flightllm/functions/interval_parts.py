"""Parts of an interval as PostgreSQL has them: DataFusion counts a year as 360 days."""

from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

WITH_DAYS, INTERVAL_EPOCH, JUSTIFIED = "__with_days", "__interval_epoch", "__justified"
"""The names of the functions in SQL."""
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_YEAR_DAYS = 365.25


def with_days(intervals: pa.Array) -> pa.Array:
    """Return intervals whose hours are days where possible, as between two timestamps: `8 days` for `192 hours`."""
    return each_row(_with_days, intervals, kind=pa.month_day_nano_interval())


def interval_epoch(intervals: pa.Array) -> pa.Array:
    """Return the seconds of intervals; a year has 365.25 days, and a further month 30 days."""
    return each_row(lambda one: _epoch(*one), intervals, kind=pa.float64())


def justified(intervals: pa.Array, units: pa.Array) -> pa.Array:
    """Return intervals whose hours are days, whose days are months of 30 days, or both with parts of one sign.

    `units` has hours, days or interval, as in the names of PostgreSQL's functions.
    """
    return each_row(_justified, intervals, units, kind=pa.month_day_nano_interval())


def _justified(interval: tuple[int, int, int], unit: str) -> tuple[int, int, int]:
    months, days, nanos = interval
    if unit == "interval":
        # First to larger units, so that no sum of parts is out of range.
        months, days = _carried(months, days, 30)
    if unit != "days":
        days, nanos = _carried(days, nanos, _DAY)
    if unit != "hours":
        months, days = _carried(months, days, 30)
    if unit == "interval":
        if months > 0 and (days < 0 or (days == 0 and nanos < 0)):
            months, days = months - 1, days + 30
        elif months < 0 and (days > 0 or (days == 0 and nanos > 0)):
            months, days = months + 1, days - 30
        if days > 0 > nanos:
            days, nanos = days - 1, nanos + _DAY
        elif days < 0 < nanos:
            days, nanos = days + 1, nanos - _DAY
        return months, days, nanos
    upper, lower, size = (days, nanos, _DAY) if unit == "hours" else (months, days, 30)
    sign = (upper > 0 > lower) - (upper < 0 < lower)
    upper, lower = upper - sign, lower + sign * size
    return (months, upper, lower) if unit == "hours" else (upper, lower, nanos)


def _carried(upper: int, lower: int, size: int) -> tuple[int, int]:
    more = int(abs(lower) // size) * (1 if lower > 0 else -1)
    return upper + more, lower - more * size


def _with_days(interval: tuple[int, int, int]) -> tuple[int, int, int]:
    months, days, nanos = interval
    return months, *_carried(days, nanos, _DAY)


def _epoch(months: int, days: int, nanos: int) -> float:
    years = int(months / 12)
    return (years * _YEAR_DAYS + (months - 12 * years) * 30 + days) * 86_400 + nanos / _SECOND


FUNCTIONS: Final = (
    OwnFunction(with_days, (pa.month_day_nano_interval(),), pa.month_day_nano_interval(), WITH_DAYS),
    OwnFunction(interval_epoch, (pa.month_day_nano_interval(),), pa.float64(), INTERVAL_EPOCH),
    OwnFunction(justified, (pa.month_day_nano_interval(), pa.string()), pa.month_day_nano_interval(), JUSTIFIED),
)
