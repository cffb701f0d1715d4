"""Turn counts of symbols into tables of frequencies for the entropy coder."""

import numpy as np
from numpy.typing import NDArray

from flightllm.kvcache.codec.rans import ESCAPE, SYMBOLS, TOTAL

_UNSEEN = 0.5
"""What a symbol counts that lies among seen ones, or beside the outermost, without having been seen itself."""


def frequencies(counts: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Return frequencies that add up to 4,096 (… × 256) for counts of the same shape; the escape's is never 0.

    A symbol further out than any that was seen has none: coding it as an escape costs little, a share of the table
    for each of them would cost all the others.
    """
    flat = counts.reshape(-1, SYMBOLS)
    seen = flat > 0
    seen[:, ESCAPE] = False
    wider = seen.copy()
    wider[:, 1:ESCAPE] |= seen[:, : ESCAPE - 1]
    wider[:, : ESCAPE - 1] |= seen[:, 1:ESCAPE]
    inside = np.maximum.accumulate(wider, axis=1) & np.maximum.accumulate(wider[:, ::-1], axis=1)[:, ::-1]
    inside[:, ESCAPE] = True
    weights = np.where(inside, np.maximum(flat, _UNSEEN), 0.0)
    room = TOTAL - inside.sum(1, keepdims=True)
    shares = weights / weights.sum(1, keepdims=True) * room
    found = np.floor(shares).astype(np.int64)
    rest = room[:, 0] - found.sum(1)
    order = np.argsort(found - shares, axis=1, kind="stable")  # the largest remainders first
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(SYMBOLS)[None], axis=1)
    found += (ranks < rest[:, None]) & inside
    found[:, ESCAPE] += TOTAL - (found + inside).sum(1)
    tables: NDArray[np.uint16] = (found + inside).astype(np.uint16).reshape(counts.shape)
    return tables
