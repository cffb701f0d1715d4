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
@pytest.mark.parametrize(
    ("name", "least"),
    [("classify", 0.75), ("sentiment", 0.75), ("score of 1 to 5, within 1", 0.8), ("declines what it cannot do", 0.9)],
)
def test_the_model_has_learned(cursor: Any, name: str, least: float) -> None:
    """On a slice of text that shares no pattern with the training's."""
    [result] = evaluate(cursor, 40, [measure for measure in measures() if measure.name == name])
    assert result.share >= least


@pytest.mark.slow
def test_field_order_changes_no_answer(cursor: Any) -> None:
    """This is what lets the optimizer reorder fields."""
    assert field_order(cursor, 40).share >= 0.9


@pytest.mark.slow
def test_sample_tables(cursor: Any) -> None:
    """Columns of the sample tables tell what is right."""
    name, sql = SAMPLES[0]
    result = on_tables(cursor, name, sql)
    assert result.examples == 500
    assert result.share >= 0.9


def test_share() -> None:
    """A result's share is that of the right ones."""
    assert Result("anything", 8, 6).share == 0.75
