"""Choose the rows whose labels would teach a filter most: near the cut, and unlike each other.

Source: Arthur and Vassilvitskii, "k-means++: The Advantages of Careful Seeding", 2007, for rows unlike each other.
"""

import numpy as np
from numpy.typing import NDArray

from flightllm.learning.learned import Floats

_POOL = 5
"""The rows nearest to the cut among which rows are chosen, for each row to choose."""


def next_rows(margins: Floats, inputs: Floats, count: int) -> NDArray[np.int64]:
    """Return the places of up to `count` rows, the most useful first; rows with an unknown margin come last.

    `margins` says how far each row is from another answer. The nearest row is the first. Each further row is the one
    with the largest squared distance to the chosen rows, as `inputs` place them, among the nearest rows.

    Example: margins `[0.1, 0.2, 0.1]` over the inputs `[[0], [0], [9]]` with `count` 2 choose the rows 0 and 2.
    """
    known = np.flatnonzero(~np.isnan(margins))
    pool = known[np.argsort(margins[known], kind="stable")][: max(_POOL * count, count)]
    if not len(pool):
        return np.arange(min(count, len(margins)))
    points = np.nan_to_num(inputs[pool])
    chosen = [0]
    nearest = ((points - points[0]) ** 2).sum(axis=1)
    while len(chosen) < min(count, len(pool)):
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    found = pool[chosen]
    rest = np.setdiff1d(np.arange(len(margins)), pool)[: count - len(found)]
    return np.concatenate([found, rest]).astype(np.int64)
