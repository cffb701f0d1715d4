"""An interval times a number, as PostgreSQL computes it; DataFusion has no such product."""

from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

INTERVAL_TIMES = "__interval_times"
"""The name of `interval_times` as an SQL function."""
INTERVAL_TIMES_OUTPUT = pa.month_day_nano_interval()
_DAY = 86_400
_MICRO = 1_000_000


def interval_times(intervals: pa.Array, factors: pa.Array, divisors: pa.Array) -> pa.Array:
    """Return the intervals times the factors, divided by the divisors.

    The fraction of a month becomes days, of which a month has 30; the fraction of a day becomes seconds. So 1.5 times
    `1 month` is `1 month 15 days`.

    Raises:
        SqlError: a divisor is 0, or a result is too long.
    """
    rows = zip(intervals.to_pylist(), factors.to_pylist(), divisors.to_pylist(), strict=True)
    found = (None if None in row else _times(*row) for row in rows)
    try:
        return pa.array(found, INTERVAL_TIMES_OUTPUT)
    except OverflowError as error:
        raise SqlError("an interval is longer than 292 years of hours: write a smaller factor") from error


def _times(interval: pa.MonthDayNano, factor: float, divisor: float) -> tuple[int, int, int]:
    if divisor == 0:
        raise SqlError("an interval is divided by zero: write nullif(…, 0) around the divisor")
    months, days, nanos = (part * factor / divisor for part in interval)
    whole_months, whole_days = int(months), int(days)
    more_days = round((months - whole_months) * 30, 6)
    seconds = round((days - whole_days + more_days - int(more_days)) * _DAY, 6)
    carried = int(seconds / _DAY)
    micros = round(nanos / 1000 + (seconds - carried * _DAY) * _MICRO)
    return whole_months, whole_days + int(more_days) + carried, micros * 1000


FUNCTIONS: Final = (
    OwnFunction(
        interval_times,
        (pa.month_day_nano_interval(), pa.float64(), pa.float64()),
        INTERVAL_TIMES_OUTPUT,
        INTERVAL_TIMES,
    ),
)
