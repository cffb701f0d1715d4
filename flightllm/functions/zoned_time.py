"""The instant of a time on the clocks of a zone, as PostgreSQL takes it; DataFusion rejects some of these times."""

from typing import Final

import pyarrow as pa
from pyarrow import compute

from flightllm.functions.own import OwnFunction

ZONED_TIME = "__zoned_time"
"""The name of `zoned_time` as an SQL function."""
ZONED_TIME_OUTPUT = pa.timestamp("ns", "UTC")


def zoned_time(times: pa.Array, zones: pa.Array) -> pa.Array:
    """Return the instants at which the clocks of a zone show the times; the zones are all equal.

    Where clocks are set back, a time occurs twice: the second one counts. Where they are set forward, a time is
    missing: the offset before the change counts, so 02:30 in New York on 2024-03-10 is 07:30 UTC.
    """
    if not len(times):
        return pa.array([], ZONED_TIME_OUTPUT)
    instants = compute.assume_timezone(times, zones[0].as_py(), ambiguous="latest", nonexistent="earliest")
    in_utc = compute.local_timestamp(instants.cast(ZONED_TIME_OUTPUT))
    offsets = compute.subtract(compute.local_timestamp(instants), in_utc)
    return compute.subtract(times, offsets).cast(ZONED_TIME_OUTPUT)


FUNCTIONS: Final = (OwnFunction(zoned_time, (pa.timestamp("ns"), pa.string()), ZONED_TIME_OUTPUT, ZONED_TIME),)
