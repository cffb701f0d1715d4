"""Scores by vectors."""

import numpy as np

from flightllm.quality.vector_scores import FEWEST, vector_scores


def test_a_line_is_learned() -> None:
    """Vectors that tell the answer give scores in its order, for taught units too."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(800, 16)).astype(np.float16)
    values = (vectors[:, 0] + 0.3 * rng.normal(size=800) > 0).astype(float)
    taught = np.arange(200)
    scores = vector_scores(vectors, taught, values[taught])
    assert ((scores > 0.5) == (values == 1)).mean() > 0.85
    assert ((scores[taught] > 0.5) == (values[taught] == 1)).mean() < 1.0


def test_too_few_answers_teach_nothing() -> None:
    """Few answers, or equal ones, give no score."""
    vectors = np.eye(40, dtype=np.float16)
    assert np.isnan(vector_scores(vectors, np.arange(FEWEST - 1), np.eye(1, FEWEST - 1)[0])).all()
    assert np.isnan(vector_scores(vectors, np.arange(40), np.ones(40))).all()


def test_equal_vectors_break_nothing() -> None:
    """Vectors without a direction give the mean."""
    scores = vector_scores(np.zeros((50, 4), np.float16), np.arange(50), np.tile([0.0, 1.0], 25))
    assert np.isfinite(scores).all()
