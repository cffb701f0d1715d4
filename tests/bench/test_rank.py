"""The benchmark of the methods of ai_rank keeps what the methods promise."""

import pytest

from bench.rank import ITEMS, METHODS, POINTWISE, measured, methods_for


@pytest.mark.slow
def test_listwise() -> None:
    """With a tenth of the comparisons wrong, windows find the first rows by under half the calls of a heap of pairs."""
    listwise, heap = (measured(METHODS[name], 100, "constant") for name in ("listwise", "heap of pairs"))
    assert listwise["recall"] >= 0.9
    assert listwise["calls"] <= heap["calls"] / 2


def test_pointwise() -> None:
    """Numbers take one call for each row."""
    assert measured(METHODS["pointwise"], 2, "distance")["calls"] == ITEMS


def test_tables() -> None:
    """A number about a row has no error that is the same at each distance, so that table leaves it out."""
    assert POINTWISE not in methods_for("constant")
    assert methods_for("distance") == list(METHODS)
    few = [measured(METHODS["heap of pairs"], 3, errors)["calls"] for errors in ("constant", "distance")]
    assert few[0] != few[1]
