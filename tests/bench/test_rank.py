"""The benchmark of the methods of ai_rank keeps what the methods promise."""

import pytest

from bench.rank import ITEMS, METHODS, measured


@pytest.mark.slow
def test_listwise() -> None:
    """With a tenth of the comparisons wrong, windows find the first rows by under half the calls of a heap of pairs."""
    listwise, heap = (measured(METHODS[name], 100) for name in ("listwise", "heap of pairs"))
    assert listwise["recall"] >= 0.9
    assert listwise["calls"] <= heap["calls"] / 2


def test_pointwise() -> None:
    """Numbers take one call for each row."""
    assert measured(METHODS["pointwise"], 2)["calls"] == ITEMS
