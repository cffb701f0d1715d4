"""Split lists passed as texts into columns, so that orderings can move elements and prompts can name them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.functions.call import ELEMENT_END

_MOST = 64
"""The most positions for a list's elements. The last position takes the rest of the list in its order."""


def places(lists: pa.Array) -> int:
    """Return how many positions the longest list takes; 1 if there are no lists."""
    counts = pc.max(pc.count_substring(lists, ELEMENT_END)).as_py()
    return min(_MOST, 1 + (counts or 0))


def elements(lists: pa.Array, count: int) -> list[pa.Array]:
    """Return `count` columns with the lists' elements: NULL after a list's end, and in a row without a list.

    With a count of 2 (elements are separated by `ELEMENT_END`, shown as `;`):

    | list | column 0 | column 1 |
    |---|---|---|
    | `a` | a | NULL |
    | `a;b;c` | a | `b;c` |
    | NULL | NULL | NULL |
    """
    parts = pc.split_pattern(lists, ELEMENT_END, max_splits=count - 1)
    starts, ends = np.asarray(parts.offsets)[:-1], np.asarray(parts.offsets)[1:]
    columns = []
    for number in range(count):
        place = starts + number
        columns.append(parts.values.take(pa.array(place, mask=place >= ends)))
    return columns
