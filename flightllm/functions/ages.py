"""The time between two days in years, months and days, as PostgreSQL and DuckDB count it."""

import calendar
from datetime import datetime
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

AGE: Final = "__age"
"""The name of `ages` as an SQL function."""
AGE_ARGUMENTS: Final = (pa.timestamp("us"), pa.timestamp("us"))
AGE_OUTPUT: Final = pa.month_day_nano_interval()


def ages(until: pa.Array, since: pa.Array) -> pa.Array:
    """Return the intervals between two times, negative if the first one is earlier.

    Days count in the month of the earlier time: from January 31 to March 1 of 2024 it is 1 month and 1 day.
    """
    return each_row(_age, until, since, kind=AGE_OUTPUT)


def _age(until: datetime, since: datetime) -> tuple[int, int, int]:
    if until < since:
        months, days, nanos = _age(since, until)
        return -months, -days, -nanos
    months = 12 * (until.year - since.year) + until.month - since.month
    days = until.day - since.day
    micros = _micros(until) - _micros(since)
    if micros < 0:
        micros, days = micros + 86_400_000_000, days - 1
    if days < 0:
        days, months = days + calendar.monthrange(since.year, since.month)[1], months - 1
    return months, days, 1000 * micros


def _micros(time: datetime) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


FUNCTIONS: Final = (OwnFunction(ages, AGE_ARGUMENTS, AGE_OUTPUT, AGE),)
