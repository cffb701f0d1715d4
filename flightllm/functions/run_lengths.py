"""The lengths of the runs of equal elements in lists."""

from itertools import groupby
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction

RUN_LENGTHS: Final = "__run_lengths"
"""The name of the function in SQL."""
COUNTS: Final = pa.list_(pa.uint64())


def run_lengths(values: pa.Array) -> pa.Array:
    """Return the counts of equal neighbours in each list: [2, 1] for ["a", "a", "b"]. NULL stays NULL."""
    return pa.array(
        [None if row is None else [sum(1 for _ in run) for _, run in groupby(row)] for row in values.to_pylist()],
        COUNTS,
    )


FUNCTIONS: Final = (OwnFunction(run_lengths, (pa.list_(pa.string()),), COUNTS, RUN_LENGTHS),)
