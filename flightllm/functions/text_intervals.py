"""The intervals that texts mean in PostgreSQL, such as `1 day 02:03:04`."""

from typing import Final

import pyarrow as pa

from flightllm.common.interval_texts import interval_of
from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

TEXT_INTERVAL: Final = "__text_interval"
"""The name of `text_intervals` as an SQL function."""


def text_intervals(values: pa.Array) -> pa.Array:
    """Return the intervals of texts.

    Raises:
        SqlError: a text has no form of an interval.
    """
    found = [None if one is None else _interval(one) for one in values.to_pylist()]
    return pa.array(found, pa.month_day_nano_interval())


def _interval(text: str) -> pa.MonthDayNano:
    try:
        return interval_of(text)
    except (ValueError, OverflowError) as error:
        raise SqlError("a text has no form of an interval: write one such as '1 day 02:03:04'") from error


FUNCTIONS: Final = (OwnFunction(text_intervals, (pa.string(),), pa.month_day_nano_interval(), TEXT_INTERVAL),)
