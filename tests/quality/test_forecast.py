"""Forecasts of asked units: near to what runs over other rows ask, for other sizes and targets too."""

from statistics import median

import numpy as np
import pytest

from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.forecast import Seen
from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.targets import Targets

BOTH = Targets(recall=0.9, precision=0.9, confidence=0.9)


def run(units: int, noise: float, seed: int, targets: Targets) -> tuple[int, Seen]:
    """Run a filter over drawn rows; return how many units it asked about, and what it has seen."""
    random = np.random.default_rng(seed)
    truth = random.random(units) < 0.3
    scores = 1 / (1 + np.exp(-(np.where(truth, 2.0, -2.0) + noise * random.standard_normal(units))))
    hits, asked = np.full(units, -1, np.int8), 0
    cascade = FilterCascade(scores, np.ones(units, np.int64), hits.copy(), targets, seed)
    while len(wave := cascade.next_wave()):
        hits[wave] = truth[wave]
        asked += len(wave)
        cascade.tell(wave, hits[wave])
    return asked, Seen(scores, hits, np.empty(0), 0)


@pytest.mark.parametrize("noise", [0.8, 1.5, 2.5])
def test_other_rows(noise: float) -> None:
    """A run of 2,000 units predicts runs of other rows, sizes and targets to within a fifth, at the median."""
    _, seen = run(2_000, noise, 0, BOTH)
    errors = []
    for seed, (units, targets) in enumerate(
        [(2_000, BOTH), (1_000, BOTH), (5_000, BOTH), (2_000, Targets(recall=0.95, precision=0.9, confidence=0.95))]
    ):
        asked, _ = run(units, noise, seed + 1, targets)
        errors.append(abs(units * seen.share(units, targets) / asked - 1))
    assert median(errors) < 0.2


def test_labels() -> None:
    """The same holds for labels with an accuracy."""
    units, targets = 2_000, Targets(accuracy=0.95, confidence=0.95)

    def labelled(seed: int) -> tuple[int, Seen]:
        random = np.random.default_rng(seed)
        confidence = 0.5 + 0.5 * random.random(units) ** 0.3
        labels = random.integers(0, 4, units)
        truth = np.where(random.random(units) < confidence, labels, (labels + 1) % 4)
        known, asked = np.full(units, -1), 0
        cascade = LabelCascade(labels, confidence, np.ones(units, np.int64), known.copy(), 4, targets, seed)
        while len(wave := cascade.next_wave()):
            known[wave] = truth[wave]
            asked += len(wave)
            cascade.tell(wave, truth[wave])
        hits = np.where(known < 0, -1, known == labels).astype(np.int8)
        return asked, Seen(confidence, hits, np.bincount(labels, minlength=4) / units, 0)

    _, seen = labelled(0)
    assert median(abs(units * seen.share(units, targets) / labelled(seed)[0] - 1) for seed in range(1, 6)) < 0.2


def test_edges() -> None:
    """Without scores all units are asked; units that trained the proxy are added once."""
    nothing = Seen(np.full(50, np.nan), np.full(50, -1, np.int8), np.empty(0), 0)
    assert nothing.share(100, BOTH) == 1.0
    _, seen = run(2_000, 0.5, 0, BOTH)
    assert seen.share(0, BOTH) == 1.0
    taught = Seen(np.linspace(0.001, 0.999, 500), np.full(500, -1, np.int8), np.empty(0), 100)
    plain = Seen(np.linspace(0.001, 0.999, 500), np.full(500, -1, np.int8), np.empty(0), 0)
    assert taught.share(10_000, BOTH) == pytest.approx(min(1, plain.share(10_000, BOTH) + 0.01))
