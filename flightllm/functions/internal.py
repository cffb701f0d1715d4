"""The functions that only rewritten texts call, for what DataFusion's own functions cannot do."""

from typing import Final

import pyarrow as pa

from flightllm.functions.half_even import HALF_EVEN, HALF_EVEN_ARGUMENTS, HALF_EVEN_OUTPUT, half_even
from flightllm.functions.interval_times import (
    INTERVAL_TIMES,
    INTERVAL_TIMES_ARGUMENTS,
    INTERVAL_TIMES_OUTPUT,
    interval_times,
)
from flightllm.functions.longest_run import (
    LONGEST_RUN,
    LONGEST_RUN_ARGUMENTS,
    LONGEST_RUN_OUTPUT,
    longest_run,
)
from flightllm.functions.search import VECTOR_BYTES, vector_bytes
from flightllm.functions.zoned_time import ZONED_TIME, ZONED_TIME_ARGUMENTS, ZONED_TIME_OUTPUT, zoned_time

INTERNAL: Final = (
    (vector_bytes, [pa.list_(pa.float32())], pa.binary(), "immutable", VECTOR_BYTES),
    (zoned_time, list(ZONED_TIME_ARGUMENTS), ZONED_TIME_OUTPUT, "immutable", ZONED_TIME),
    (interval_times, list(INTERVAL_TIMES_ARGUMENTS), INTERVAL_TIMES_OUTPUT, "immutable", INTERVAL_TIMES),
    (half_even, list(HALF_EVEN_ARGUMENTS), HALF_EVEN_OUTPUT, "immutable", HALF_EVEN),
    (longest_run, list(LONGEST_RUN_ARGUMENTS), LONGEST_RUN_OUTPUT, "immutable", LONGEST_RUN),
)
"""The arguments of `datafusion.udf` for each function."""
CALLED: Final = (ZONED_TIME, INTERVAL_TIMES, HALF_EVEN, LONGEST_RUN)
"""The names that the passes over a text write in it."""
