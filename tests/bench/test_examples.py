"""The figures about examples: their intervals, and the way from probabilities to them."""

import json
import shlex

import numpy as np
import pytest

from bench import examples
from bench.examples import JUDGING, calibration_error, figures, wilson
from bench.record import RECORDS, RESULTS


def test_wilsons_interval() -> None:
    """It is that of the textbook: 8 of 10 are 49 to 94 %; of no or all rows it stays within 0 and 1."""
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=1e-3)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1


def test_calibration_error() -> None:
    """A model that is right as often as it says has none; one that is always sure and half right has 0.5."""
    wanted = np.array([0, 1] * 10)
    assert calibration_error(np.tile([0.5, 0.5], (20, 1)), wanted) == pytest.approx(0)
    assert calibration_error(np.tile([1.0, 0.0], (20, 1)), wanted) == pytest.approx(0.5)


ALTERNATE = [0, 1] * 4


@pytest.mark.parametrize("learns", [False, True])
def test_figures_of_a_biased_model(*, learns: bool) -> None:
    """A model that ranks rows right and says No to all is cut right, in the prompts that serve its examples best."""
    wanted = [0, 1] * 24
    biased = [[0.3, 0.7] if place == 0 else [0.1, 0.9] for place in wanted]
    useless = [[0.2, 0.8]] * 48
    alone, aided = (useless, biased) if learns else (biased, useless)
    found = figures(
        {
            "wanted": wanted,
            "raw": alone,
            "aided": aided,
            "plain": useless,
            "examples": ALTERNATE,
            "examples_alone": alone[:8],
            "examples_aided": aided[:8],
        }
    )
    assert found["how"] == f"examples {'in' if learns else 'not in'} the prompts, cut moved"
    assert found["raw"]["accuracy"][0] == found["plain"]["accuracy"][0] == 0.5
    assert found["examples"]["accuracy"][0] == found["examples"]["area"][0] == 1
    assert found["examples"]["gain"][0] == 0.5
    assert found["batch"]["gain"] == (
        [0, 0, 0] if learns else [0.5, pytest.approx(0.35, abs=0.1), pytest.approx(0.65, abs=0.1)]
    )
    assert found["plain"]["gain"] == [0, 0, 0]


def test_the_record_follows_from_kept_probabilities(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorded command needs no model and no table, and has today's figures for the tasks that chose nothing."""
    monkeypatch.delenv("FLIGHTLLM_LABELLED", raising=False)
    monkeypatch.chdir(RESULTS.parents[1])
    examples.main([*shlex.split(RECORDS["examples"])[1:], "--json"])
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert [one["task"] for one in printed] == [*JUDGING, *JUDGING]
    kept = json.loads((RESULTS / "examples.json").read_text(encoding="utf-8"))["figures"]["results"]
    same = ("model", "task", "how")
    assert [[one[key] for key in same] for one in printed] == [[one[key] for key in same] for one in kept]
    rights = [[one[way]["accuracy"] for one in found for way in examples.WAYS] for found in (printed, kept)]
    assert rights[0] == rights[1]
