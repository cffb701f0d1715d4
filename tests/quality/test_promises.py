"""Promises about labels, and about whole queries, hold over many seeds."""

import numpy as np
import pytest

from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.split import split
from flightllm.quality.targets import Targets
from tests.quality.simulated import calibrated, labelled

SEEDS = 300


def classified(rows: int, classes: int, targets: Targets, seed: int, sharpness: float) -> tuple[float, float]:
    """Return the share of right labels in the end, and the share of rows asked."""
    verdicts, truth, cascade = labelled(rows, classes, targets, seed, sharpness)
    return float((verdicts == truth).mean()), cascade.report().asked_units / rows


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "sharpness"), [(5, 2.4), (5, 1.0), (20, 3.2), (20, 1.5)])
def test_accuracy_holds(classes: int, sharpness: float) -> None:
    """Good and poor proxies with 5 and 20 labels: at most one run in ten misses its accuracy."""
    targets = Targets(accuracy=0.9, confidence=0.9)
    found = [classified(1_000, classes, targets, seed, sharpness) for seed in range(SEEDS)]
    misses = sum(accuracy < 0.9 for accuracy, _ in found)
    assert misses <= 0.1 * SEEDS


def query(rows: int, targets: Targets, seed: int) -> tuple[float, float]:
    """Run the AND of two filters and then a classification; return the recall and the precision of the result."""
    rng = np.random.default_rng(seed)
    together, label = (part for part in split(targets, ["filter", "label"]) if part is not None)
    (red, is_red), (big, is_big) = (calibrated(rows, 0.5, 4.0, rng) for _ in range(2))
    wanted, ones, unknown = is_red * is_big, np.ones(rows, np.int64), np.full(rows, -1)
    cascade = FilterCascade(red * big, ones, unknown.astype(np.int8), together, seed)
    while len(units := cascade.next_wave()):
        cascade.tell(units, wanted[units])
    left = np.flatnonzero(cascade.verdicts() == 1)
    truth = rng.integers(0, 5, rows)
    logits = rng.normal(size=(rows, 5))
    logits[np.arange(rows), truth] += 3.0
    chances = np.exp(3.0 * logits)
    chances /= chances.sum(1, keepdims=True)
    likely, sure = chances[left].argmax(1), chances[left].max(1)
    labels = LabelCascade(likely, sure, ones[left], unknown[left], 5, label, seed)
    while len(units := labels.next_wave()):
        labels.tell(units, truth[left[units]])
    right = int(((wanted[left] == 1) & (labels.verdicts() == truth[left])).sum())
    return right / max(int(wanted.sum()), 1), right / max(len(left), 1)


@pytest.mark.slow
def test_whole_query_holds() -> None:
    """Of the rows of a query with two filters and labels, enough are right and there, in nine runs of ten."""
    targets = Targets(recall=0.9, precision=0.9, confidence=0.9)
    found = np.array([query(2_000, targets, seed) for seed in range(SEEDS)])
    misses = int((found.min(axis=1) < 0.9).sum())
    assert misses <= 0.1 * SEEDS
