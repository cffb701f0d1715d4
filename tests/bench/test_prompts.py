"""The comparison of prompt formats: its figures, and that a run goes on where the last one stopped."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bench.prompts import area_under_curve, main
from flightllm.common.package_data import demo_model


def test_area_under_the_curve() -> None:
    """It is the share of pairs of a positive and a negative row in which the positive one has the higher score."""
    labels = np.array([True, True, False, False])
    assert area_under_curve(np.array([0.9, 0.8, 0.2, 0.1]), labels) == 1
    assert area_under_curve(np.array([0.1, 0.2, 0.8, 0.9]), labels) == 0
    assert area_under_curve(np.array([0.5, 0.9, 0.5, 0.1]), labels) == pytest.approx(0.875)


@pytest.mark.slow  # loads the model twice
@pytest.mark.skipif("FLIGHTLLM_DATA" not in os.environ, reason="FLIGHTLLM_DATA names no folder with labelled tables")
def test_a_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each format is measured once on each task; the two best are asked about more rows; a second run asks nothing."""
    out = tmp_path / "found.json"
    given = ["--model", str(demo_model()), "--rows", "4", "--best-rows", "6", "--out", str(out)]
    given += ["--functions", "filter", "extract", "--formats", "plain", "question", "fenced"]
    given += ["--tasks", "films", "paragraphs"]
    main(given)
    found = json.loads(out.read_text())["weights"]
    assert [sum(one["rows"] == rows for one in found) for rows in (4, 6)] == [8, 4]
    assert all(len(one["right"]) == one["rows"] for one in found)
    assert "accuracy" in capsys.readouterr().out
    main(given)
    assert json.loads(out.read_text())["weights"] == found
    assert "accuracy" not in capsys.readouterr().out
