"""A sum of intervals from the sum of their days and the sum of their nanoseconds."""

from decimal import Decimal
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

INTERVAL_SUM = "__interval_sum"
"""The name of `interval_sum` as an SQL function."""
INTERVAL_SUM_OUTPUT = pa.month_day_nano_interval()
_LONGEST = 2**63
_DAY = 86_400_000_000_000


def interval_sum(days: pa.Array, nanos: pa.Array) -> pa.Array:
    """Return intervals of some days and nanoseconds; nanoseconds past 64 bits become days."""
    return each_row(_interval, days, nanos, kind=INTERVAL_SUM_OUTPUT)


def _interval(days: int, nanos: Decimal) -> tuple[int, int, int]:
    rest = int(nanos)
    more = abs(rest) // _DAY * (1 if rest > 0 else -1) if abs(rest) >= _LONGEST else 0
    return 0, days + more, rest - more * _DAY


FUNCTIONS: Final = (OwnFunction(interval_sum, (pa.int64(), pa.decimal128(38, 0)), INTERVAL_SUM_OUTPUT, INTERVAL_SUM),)
