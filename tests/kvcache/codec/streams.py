"""Tables and orders to try the entropy coder with."""

import numpy as np
from numpy.typing import NDArray

from flightllm.kvcache.codec.rans import ESCAPE, LARGEST, SYMBOLS, Order
from flightllm.kvcache.profile.tables import frequencies


def normal_tables(channels: int, spread: float) -> NDArray[np.uint16]:
    """Return tables of normal distributions, anchors' ten times as wide."""
    places = np.arange(SYMBOLS) - LARGEST
    counts = [1e6 * np.exp(-((places / width) ** 2) / 2) for width in (10 * spread, spread)]
    for count in counts:
        count[ESCAPE] = 0
    return frequencies(np.stack([np.tile(count.astype(np.int64), (channels, 1)) for count in counts]))


def anchors_first(tokens: int, every: int = 10) -> Order:
    """Return an order in which each tenth token is an anchor."""
    others = np.arange(tokens) % every > 0
    return Order(np.argsort(others, kind="stable"), int((~others).sum()))
