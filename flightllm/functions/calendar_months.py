"""The months between two times, as Oracle, Snowflake and Spark count them."""

from calendar import monthrange
from datetime import datetime
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

MONTHS_BETWEEN: Final = "__months_between"
"""The name of the function in SQL."""
_DAY: Final = 86_400


def months_between(later: pa.Array, earlier: pa.Array) -> pa.Array:
    """Return the months between two times; the rest of a month is a fraction of 31 days.

    The same day of two months, or the last days of both, are whole months apart whatever the time of the day is.
    """
    return each_row(_between, later, earlier, kind=pa.float64())


def _between(later: datetime, earlier: datetime) -> float:
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    if later.day == earlier.day or (_is_last(later) and _is_last(earlier)):
        return float(months)
    seconds = (later.day - earlier.day) * _DAY + _second(later) - _second(earlier)
    return months + seconds / (31 * _DAY)


def _is_last(day: datetime) -> bool:
    return day.day == monthrange(day.year, day.month)[1]


def _second(time: datetime) -> int:
    return time.hour * 3600 + time.minute * 60 + time.second


FUNCTIONS: Final = (
    OwnFunction(months_between, (pa.timestamp("us"), pa.timestamp("us")), pa.float64(), MONTHS_BETWEEN),
)
