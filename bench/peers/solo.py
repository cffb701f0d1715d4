"""Order rows and fields by SOLO's greedy tree shaping.

Source: Li et al., "Prefix-Cache-Aware Data Reordering for LLM-Augmented Database Analytics", ICML 2026, and the
description of the planner that its authors publish. The rule:

- All prompts have one order of fields, so that their radix tree has one field for each level.
- The next field is the one that gives the tree the fewest nodes at this level: the fewest distinct combinations of the
  chosen fields' values. Of equal fields, the first one in the table is chosen.
- Rows are sorted by the values in this order: the tree is sent depth first.

The published rule counts nodes, not tokens. `solo_tokens` is a stronger reading, which the description allows: the next
field is the one with the most tokens saved, so a long text that repeats comes before a short one.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded
from flightllm.prompt_order.sequence import FlatDictionary, sort_rows

_Saved = Callable[[int, NDArray[np.int64]], float]
"""Returns the savings of the tree if a field comes next; the array has the first row of each node."""


def solo(encoded: Encoded) -> Draft:
    """Return the order of fields with the fewest tree nodes level by level, and the rows sorted by it."""
    return _shaped(encoded, lambda _, first: -float(len(first)), "solo")


def solo_tokens(encoded: Encoded) -> Draft:
    """Return the order of fields that saves the most tokens level by level, and the rows sorted by it."""

    def saved(column: int, first: NDArray[np.int64]) -> float:
        weights = np.append(encoded.weights[column], 0.0)[encoded.codes[:, column]]
        return float(weights.sum() - weights[first].sum())

    return _shaped(encoded, saved, "solo_tokens")


def _shaped(encoded: Encoded, saved: _Saved, name: str) -> Draft:
    rows, columns = encoded.codes.shape
    node, order, free = np.zeros(rows, dtype=np.int64), [], list(range(columns))
    while free:
        levels = {column: _level(node, encoded.codes[:, column]) for column in free}
        best = max(free, key=lambda column: saved(column, levels[column][0]))
        order.append(best)
        free.remove(best)
        node = levels[best][1]
    fields = np.broadcast_to(np.array(order, dtype=np.int16), (rows, columns))
    return Draft(sort_rows(FlatDictionary.of(encoded).sequence(encoded.codes, fields)), fields, name)


def _level(node: NDArray[np.int64], codes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each node of the next level, and the node of each row."""
    keys = node * (int(codes.max(initial=-1)) + 2) + codes + 1
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse
