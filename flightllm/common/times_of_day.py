"""The one unit of times of the day. DataFusion compares no times of two units."""

from typing import Final

import pyarrow as pa

from flightllm.common.leaf_types import with_leaves

TIME: Final = pa.time64("ns")
"""The type of TIME."""


def in_unit_of_time(kind: pa.DataType) -> pa.DataType:
    """Return a type with the unit of TIME, nanoseconds, for times of the day.

    It changes times at any depth in lists, structs and maps, and returns other types unchanged.
    """
    return with_leaves(kind, lambda leaf: TIME if pa.types.is_time(leaf) else leaf)
