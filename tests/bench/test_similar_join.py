"""A join by similar vectors of large tables keeps its promise, in bounded memory."""

import pytest

from bench.similar_join import RECALL, measure


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2_000, 10_000])
def test_memory_is_bounded(rows: int) -> None:
    """No wrong pair comes back, the recall holds, and no table of pairs is kept."""
    figures = measure(rows, 5, 256, 0.6)
    assert figures["wrong"] == 0
    assert figures["recall"] >= RECALL
    assert figures["held"]
    assert figures["embedded"] == 2 * rows
    assert figures["questions"] <= 20 * rows
    assert figures["peak_mib"] <= 1_024
