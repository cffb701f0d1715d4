"""Turn counts of symbols into tables of frequencies for the entropy coder."""

import numpy as np
from numpy.typing import NDArray

from flightllm.kvcache.codec.rans import ESCAPE, SYMBOLS, TOTAL

_UNSEEN = 0.5
"""The count of an unseen symbol between seen symbols, or next to the outermost seen symbol."""


def frequencies(counts: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Return frequencies that add up to 4,096 (… × 256) for counts of the same shape; the escape's is never 0.

    | symbol | count | frequency |
    |---|---|---|
    | 125 | 0 | 51 (beside a seen symbol) |
    | 126 | 30 | 2,993 |
    | 127 | 0 | 51 (between seen symbols) |
    | 128 | 9 | 899 |
    | 129 | 0 | 51 (beside a seen symbol) |
    | 255, the escape | 0 | 51 |
    | all others | 0 | 0 |

    Symbols further out get the frequency 0 and are coded as escapes, which costs little. A share of the table for each
    of them would make all other symbols longer.
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
