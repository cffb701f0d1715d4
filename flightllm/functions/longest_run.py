"""Find the longest run of equal texts in sorted lists: the value that comes most often begins it."""

from typing import Final

import numpy as np
import pyarrow as pa

from flightllm.functions.own import OwnFunction

LONGEST_RUN = "__longest_run"
"""The name of `longest_run` as an SQL function."""


def longest_run(lists: pa.Array) -> pa.Array:
    """Return where the longest run of equal texts begins in each list, counted from 1; of equally long runs the first.

    `lists` holds one list of texts for each row. A list that is NULL or empty gives NULL.

    | list | place |
    |---|---|
    | `['a', 'b', 'b', 'c']` | 2 |
    | `['a', 'b']` | 1 |
    | `[]` | NULL |
    """
    texts = lists.flatten()
    rows = np.repeat(np.arange(len(lists)), np.asarray(lists.value_lengths().fill_null(0)))
    places = np.full(len(lists), -1)
    if len(texts):
        codes = np.asarray(texts.dictionary_encode().indices.fill_null(-1))
        begins = np.flatnonzero(np.append(True, (codes[1:] != codes[:-1]) | (rows[1:] != rows[:-1])))
        lengths = np.diff(np.append(begins, len(codes)))
        first = np.searchsorted(rows, rows[begins])
        # The last write to a row wins, so the longest run comes last, and of equally long runs the first.
        order = np.lexsort((-begins, lengths))
        places[rows[begins][order]] = (begins - first)[order]
    return pa.array(places + 1, pa.int64(), mask=places < 0)


FUNCTIONS: Final = (OwnFunction(longest_run, (pa.list_(pa.string()),), pa.int64(), LONGEST_RUN),)
