"""A cascade of labels keeps its accuracy, and asks less than every row."""

import numpy as np

from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.targets import Targets
from tests.quality.simulated import labelled


def test_accuracy_holds_with_fewer_questions() -> None:
    """Five classes, a proxy that is right for four rows in five: nine in ten are right in the end."""
    verdicts, truth, cascade = labelled(2000, 5, Targets(accuracy=0.9, confidence=0.9), seed=1)
    report = cascade.report()
    assert report.held
    assert 0.9 <= report.accuracy <= (verdicts == truth).mean()
    assert report.asked_units < 1400


def test_rates_of_each_class_hold() -> None:
    """Recall and precision of every class reach their targets."""
    verdicts, truth, cascade = labelled(5000, 3, Targets(recall=0.8, precision=0.8, confidence=0.9), seed=2)
    assert cascade.report().held
    for label in range(3):
        both = ((verdicts == label) & (truth == label)).sum()
        assert both >= 0.8 * (truth == label).sum()
        assert both >= 0.8 * (verdicts == label).sum()


def test_a_sure_proxy_is_predicted_to_save() -> None:
    """The confidences alone predict that rates of each class need fewer questions."""
    labels = np.arange(3000) % 3
    sure, one, unknown = np.full(3000, 0.995), np.ones(3000, np.int64), np.full(3000, -1)
    targets = Targets(recall=0.9, precision=0.9)
    assert LabelCascade(labels, sure, one, unknown, 3, targets, 1).predicted() < 0.7
    assert LabelCascade(labels, sure / 3, one, unknown, 3, targets, 1).predicted() > 0.9
