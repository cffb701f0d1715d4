"""Lists that are passed as texts: their elements as columns, for orderings to move and prompts to name one by one."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.functions.call import ELEMENT_END

_MOST = 64
"""Places for the elements of a list: the last one takes all that are left, which keep their order."""


def places(lists: pa.Array) -> int:
    """Return how many places the longest of the lists takes; one if there are none."""
    counts = pc.max(pc.count_substring(lists, ELEMENT_END)).as_py()
    return min(_MOST, 1 + (counts or 0))


def elements(lists: pa.Array, count: int) -> list[pa.Array]:
    """Return `count` columns with the lists' elements; NULL after a list's end, and in a row that has no list."""
    parts = pc.split_pattern(lists, ELEMENT_END, max_splits=count - 1)
    starts, ends = np.asarray(parts.offsets)[:-1], np.asarray(parts.offsets)[1:]
    columns = []
    for number in range(count):
        place = starts + number
        columns.append(parts.values.take(pa.array(place, mask=place >= ends)))
    return columns
