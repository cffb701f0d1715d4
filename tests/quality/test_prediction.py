"""Predictions from scores."""

import numpy as np
import pytest

from flightllm.quality.prediction import predict

NONE = np.empty(0, np.int64)


def test_without_answers_the_scores_count() -> None:
    """Before the first answer, a score is the prediction; a unit without a score gets the mean."""
    found = predict(np.array([0.1, 0.9, np.nan]), NONE, np.empty(0), yes_or_no=True)
    assert found.expected == pytest.approx([0.1, 0.9, 0.5])
    assert found.spread == pytest.approx([0.3, 0.3, 0.5])


@pytest.mark.parametrize("inverted", [False, True])
def test_scores_are_put_right(*, inverted: bool) -> None:
    """Answers put right scores that are too sure, or upside down."""
    rng = np.random.default_rng(0)
    truth = rng.beta(0.5, 0.5, 2_000)
    values = (rng.random(2_000) < truth).astype(float)
    logits = 3 * np.log(truth.clip(1e-3, 1 - 1e-3) / (1 - truth).clip(1e-3, 1))
    scores = 1 / (1 + np.exp(logits if inverted else -logits))
    found = predict(scores, np.arange(500), values[:500], yes_or_no=True)
    assert np.abs(found.expected - truth).mean() < 0.06


def test_ratings_lie_on_a_line() -> None:
    """Scores of ratings become a line through the answers, with one error for all."""
    scores = np.linspace(0, 1, 100)
    values = 0.2 + 0.5 * scores
    found = predict(scores, np.arange(100), values, yes_or_no=False)
    assert found.expected == pytest.approx(values, abs=0.05)
    assert found.spread.max() == found.spread.min() < 0.1


def test_equal_answers_break_nothing() -> None:
    """Answers that are all yes, at scores that are all 1, give finite predictions."""
    found = predict(np.ones(10), np.arange(10), np.ones(10), yes_or_no=True)
    assert np.isfinite(found.expected).all()
    assert found.expected.min() > 0.9
