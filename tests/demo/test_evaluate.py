"""The evaluation runs through SQL on a running server."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

from flightllm.demo.evaluate import SAMPLES, Result, connected, evaluate, field_order, measures, on_tables


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    """Return a cursor on a server with the demo model and the sample tables."""
    with connected(["--engine", "local"], None) as found:
        yield found


@pytest.mark.slow
def test_every_measure_runs(cursor: Any) -> None:
    """Each is asked through SQL and counts its examples."""
    results = [*evaluate(cursor, 2, measures()), field_order(cursor, 6)]
    assert [result.examples for result in results] == [2] * len(measures()) + [6]
    assert all(0 <= result.right <= result.examples for result in results)


@pytest.mark.slow
def test_sample_tables(cursor: Any) -> None:
    """Columns of the sample tables tell what is right."""
    name, sql = SAMPLES[0]
    assert on_tables(cursor, name, sql).examples == 500


def test_share() -> None:
    """A result's share is that of the right ones."""
    assert Result("anything", 8, 6).share == 0.75
