"""Frequencies of symbols from their counts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flightllm.kvcache.codec.rans import ESCAPE, SYMBOLS, TOTAL
from flightllm.kvcache.profile.tables import frequencies


@given(counts=st.dictionaries(st.integers(0, SYMBOLS - 1), st.integers(1, 10**9), max_size=SYMBOLS))
def test_add_up(counts: dict[int, int]) -> None:
    """They add up whatever the counts; every symbol between seen ones has one, and the escape too."""
    found = np.zeros((1, SYMBOLS), np.int64)
    for symbol, count in counts.items():
        found[0, symbol] = count
    [table] = frequencies(found)
    assert int(table.sum()) == TOTAL
    assert table[ESCAPE] > 0
    seen = [symbol for symbol in counts if symbol != ESCAPE]
    if seen:
        assert (table[min(seen) : max(seen) + 1] > 0).all()
        assert not table[: max(0, min(seen) - 1)].any()


def test_in_proportion() -> None:
    """Frequencies follow the counts."""
    counts = np.zeros((2, SYMBOLS), np.int64)
    counts[:, 120:135] = 1_000
    counts[1, 127] = 100_000
    even, peaked = frequencies(counts).astype(float) / TOTAL
    assert np.allclose(even[120:135], 1 / 15, atol=0.001)
    assert abs(peaked[127] - 100 / 114) < 0.004


def test_nothing_seen() -> None:
    """A channel of which nothing is known codes all by the escape."""
    [table] = frequencies(np.zeros((1, SYMBOLS), np.int64))
    assert table[ESCAPE] == TOTAL
