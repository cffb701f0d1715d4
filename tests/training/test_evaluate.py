"""The evaluation runs through SQL on a running server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

from training.evaluate import (
    SAMPLES,
    Result,
    ask,
    calibration_error,
    connected,
    evaluate,
    field_order,
    measures,
    on_tables,
)


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
    [
        ("filter", 0.88),
        ("classify", 0.9),
        ("classify, label sets not seen in training", 0.9),
        ("sentiment", 0.85),
        ("score of 1 to 5, within 1", 0.85),
        ("classify with multi", 0.9),
        ("extract, all fields exact", 0.82),
        ("answer in a response_format", 0.65),
        ("extract by a schema", 0.65),
        ("question", 0.7),
        ("needle", 0.85),
        ("summary", 0.45),
        ("declines what it cannot do", 0.95),
    ],
)
def test_the_model_has_learned(cursor: Any, name: str, least: float) -> None:
    """On a slice of text that shares no pattern with the training's."""
    measure = next(measure for measure in measures() if measure.name.startswith(name))
    [result] = evaluate(cursor, 40, [measure])
    assert result.share >= least


@pytest.mark.slow
@pytest.mark.vllm
def test_vllm_answers_alike(cursor: Any) -> None:
    """The weights are read the same by both engines; numbers that nearly tie may fall either way."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    asked = [example for measure in measures() for example in measure.make(5)]
    with connected(["--engine", "vllm"], None) as other:
        answers = [(ask(cursor, example), ask(other, example)) for example in asked]
    assert sum(a == b for a, b in answers) >= 0.95 * len(answers)
    assert sum(a is None for a, _ in answers) <= 2


@pytest.mark.slow
def test_field_order_changes_no_answer(cursor: Any) -> None:
    """This is what lets the optimizer reorder fields. Each is asked: no answer is one kept before."""
    assert field_order(cursor, 40).share >= 0.9
    cursor.execute(
        "SELECT sum(calls), sum(cache_hits) FROM (SELECT * FROM system.queries ORDER BY started_at DESC LIMIT 80)"
    )
    assert cursor.fetchone() == (80, 0)


@pytest.mark.slow
def test_choices_are_calibrated() -> None:
    """A choice's probability is about how often it is right."""
    error, confidence = calibration_error(40)
    assert error < 0.1
    assert confidence > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sql"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_sample_tables(cursor: Any, name: str, sql: str) -> None:
    """Columns of the sample tables tell what is right, also of what the demo asks."""
    result = on_tables(cursor, name, sql)
    assert result.examples >= 500
    assert result.share >= (0.9 if "film reviews" in name else 0.94)


@pytest.mark.slow
def test_as_a_command() -> None:
    """It prints one JSON document of the measures chosen."""
    command = [sys.executable, "-m", "training.evaluate", "--only", "topic", "--json", "--count", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "FLIGHTLLM_DATA"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=280)
    told = json.loads(done.stdout)
    assert [row["measure"] for row in told["results"]] == ["sample tickets: topic"]
    assert told["calibration_error"] is None
    unknown = subprocess.run([*command[:4], "tpoic"], capture_output=True, text=True, check=False)
    assert "no measure's name contains this text; the measures are filter; classify" in unknown.stderr
    wrong = subprocess.run([*command[:-1], "0"], capture_output=True, text=True, check=False)
    assert "expected a whole number from 1 on, got '0'" in wrong.stderr


def test_share() -> None:
    """A result's share is that of the right ones."""
    assert Result("anything", 8, 6).share == 0.75
