"""The functions that only rewritten texts call, for what DataFusion's own functions cannot do."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.functions.array_keys import KEY_FUNCTIONS, array_key, key_type
from flightllm.functions.half_even import HALF_EVEN, HALF_EVEN_ARGUMENTS, HALF_EVEN_OUTPUT, half_even
from flightllm.functions.interval_parts import INTERVAL_EPOCH, WITH_DAYS, interval_epoch, with_days
from flightllm.functions.interval_sum import INTERVAL_SUM, INTERVAL_SUM_ARGUMENTS, INTERVAL_SUM_OUTPUT, interval_sum
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
from flightllm.functions.text_bytes import TEXT_BYTES, text_bytes
from flightllm.functions.time_texts import (
    TIME_TEXT,
    TIMESTAMP_TEXT,
    ZONED_TEXT,
    time_text,
    timestamp_text,
    zoned_text,
)
from flightllm.functions.type_names import TYPE_NAME, type_names
from flightllm.functions.value_texts import (
    ARRAY_TEXT,
    DOUBLE_TEXT,
    INTERVAL_TEXT,
    REAL_TEXT,
    array_text,
    double_text,
    interval_text,
    real_text,
)
from flightllm.functions.zoned_time import ZONED_TIME, ZONED_TIME_ARGUMENTS, ZONED_TIME_OUTPUT, zoned_time

INTERNAL: Final[tuple[tuple[Callable[..., pa.Array], list[pa.DataType], pa.DataType, str, str], ...]] = (
    (vector_bytes, [pa.list_(pa.float32())], pa.binary(), "immutable", VECTOR_BYTES),
    (zoned_time, list(ZONED_TIME_ARGUMENTS), ZONED_TIME_OUTPUT, "immutable", ZONED_TIME),
    (interval_times, list(INTERVAL_TIMES_ARGUMENTS), INTERVAL_TIMES_OUTPUT, "immutable", INTERVAL_TIMES),
    (interval_sum, list(INTERVAL_SUM_ARGUMENTS), INTERVAL_SUM_OUTPUT, "immutable", INTERVAL_SUM),
    (half_even, list(HALF_EVEN_ARGUMENTS), HALF_EVEN_OUTPUT, "immutable", HALF_EVEN),
    (double_text, [pa.float64()], pa.string(), "immutable", DOUBLE_TEXT),
    (real_text, [pa.float32()], pa.string(), "immutable", REAL_TEXT),
    (interval_text, [pa.month_day_nano_interval(), pa.bool_()], pa.string(), "immutable", INTERVAL_TEXT),
    (with_days, [pa.month_day_nano_interval()], pa.month_day_nano_interval(), "immutable", WITH_DAYS),
    (interval_epoch, [pa.month_day_nano_interval()], pa.float64(), "immutable", INTERVAL_EPOCH),
    (time_text, [pa.string()], pa.string(), "immutable", TIME_TEXT),
    (timestamp_text, [pa.string()], pa.string(), "immutable", TIMESTAMP_TEXT),
    (zoned_text, [pa.string()], pa.string(), "immutable", ZONED_TEXT),
    (type_names, [pa.string()], pa.string(), "immutable", TYPE_NAME),
    (text_bytes, [pa.string()], pa.binary(), "immutable", TEXT_BYTES),
    (array_text, [pa.list_(pa.string())], pa.string(), "immutable", ARRAY_TEXT),
    *((array_key, [pa.list_(one)], key_type(one), "immutable", name) for one, name in KEY_FUNCTIONS.items()),
    (longest_run, list(LONGEST_RUN_ARGUMENTS), LONGEST_RUN_OUTPUT, "immutable", LONGEST_RUN),
)
"""The arguments of `datafusion.udf` for each function."""
CALLED: Final = (
    *(ZONED_TIME, INTERVAL_TIMES, INTERVAL_SUM, HALF_EVEN, DOUBLE_TEXT, REAL_TEXT, INTERVAL_TEXT, ARRAY_TEXT),
    *(WITH_DAYS, INTERVAL_EPOCH, TIME_TEXT, TIMESTAMP_TEXT, ZONED_TEXT, TEXT_BYTES, LONGEST_RUN, TYPE_NAME),
    *KEY_FUNCTIONS.values(),
)
"""The names that the passes over a text write in it."""
