"""A model that is fitted to some labelled vectors, and the labels that it asks for."""

import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from flightllm.errors import MissingExtraError
from flightllm.operators.learned_scores import fit, held_out, learn
from flightllm.operators.oracle import NO_ANSWER, UNASKED
from flightllm.operators.population import Units

pytest.importorskip("sklearn", reason="the extra 'learn' is not installed")


def world(count: int, shares: list[float], noise: float, seed: int = 0) -> tuple[NDArray[np.float32], Units]:
    """Return vectors and their labels: a direction for each label, and noise of this length."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(shares), count, p=shares)
    directions = rng.standard_normal((len(shares), 32))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    vectors = directions[labels] + noise * rng.standard_normal((count, 32)) / np.sqrt(32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels.astype(np.int64)


@dataclass
class Memory:
    """Vectors in memory, and a teacher that knows all labels; what it predicts gets smaller with surer scores."""

    vectors: NDArray[np.float32]
    truth: Units
    most: int = 10_000
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Know no label."""
        self.labels = np.full(len(self.truth), UNASKED, np.int64)
        self.count = max(int(self.truth.max()) + 1, 2)

    def __len__(self) -> int:
        return len(self.truth)

    def read(self, units: Units) -> NDArray[np.float32]:
        """Return the vectors."""
        return self.vectors[units]

    def known(self) -> Units:
        """Return what was told so far."""
        return self.labels

    def ask(self, units: Units) -> None:
        """Tell the labels."""
        assert (self.labels[units] == UNASKED).all()
        self.asked += units.tolist()
        self.labels[units] = self.truth[units]

    def predict(self, labels: Units, confidence: NDArray[np.float64]) -> float:
        """Return the share of units that are not sure."""
        del labels
        return float(np.nanmean(confidence < 0.95))


@pytest.mark.parametrize(("shares", "noise"), [([0.5, 0.5], 1.5), ([0.95, 0.05], 1.0), ([0.2] * 5, 1.0)])
def test_learns(shares: list[float], noise: float) -> None:
    """A few labels are enough to say which label the others have, and the same seed asks the same units."""
    memory = Memory(*world(1_500, shares, noise))
    found = learn(memory, np.arange(1_500), memory, 1)
    assert np.mean(found.labels == memory.truth) > 0.98
    assert found.asked == len(memory.asked) == len(set(memory.asked)) <= 400
    again = Memory(memory.vectors, memory.truth)
    learn(again, np.arange(1_500), again, 1)
    assert again.asked == memory.asked


def test_known_labels_teach() -> None:
    """Labels that are known before teach the first model, so fewer are asked."""
    memory = Memory(*world(1_000, [0.5, 0.5], 0.5))
    memory.labels[:100] = memory.truth[:100]
    found = learn(memory, np.arange(100, 1_000), memory, 1)
    assert np.mean(found.labels == memory.truth[100:]) > 0.98
    assert len(memory.asked) <= 25


def test_one_label_alone() -> None:
    """Where all labels are the same, the asking goes on to its limit, and the reason says why there is no model."""
    memory = Memory(*world(1_000, [1.0], 1.0))
    found = learn(memory, np.arange(1_000), memory, 1)
    assert found.asked == 200
    assert set(found.labels) == {0}
    assert 0.99 < found.confidence[0] < 1
    assert "learning needs two" in found.reason


def test_bounds() -> None:
    """A budget of labels is kept, also one of none."""
    for most in (0, 30):
        memory = Memory(*world(1_000, [0.5, 0.5], 1.0), most=most)
        assert learn(memory, np.arange(1_000), memory, 1).asked == len(memory.asked) == most


def test_units_without_vectors_or_answers() -> None:
    """A unit without a vector has no score, and one without an answer teaches nothing."""
    vectors, truth = world(1_000, [0.5, 0.5], 0.5)
    vectors[::10] = np.nan
    truth[1::10] = NO_ANSWER
    memory = Memory(vectors, truth)
    found = learn(memory, np.arange(1_000), memory, 1)
    assert (found.labels[::10] == -1).all()
    assert np.isnan(found.confidence[::10]).all()
    rest = np.flatnonzero((truth >= 0) & (np.arange(1_000) % 10 > 0))
    assert np.mean(found.labels[rest] == truth[rest]) > 0.98


def test_held_out_scores_do_not_know_their_labels() -> None:
    """Scores of random labels are as good as chance, because each comes from a model of the other labels."""
    rng = np.random.default_rng(0)
    vectors, labels = rng.standard_normal((300, 100)).astype(np.float32), rng.integers(0, 2, 300)
    found = held_out(vectors, labels, 2)
    assert found is not None
    assert np.mean(found.argmax(axis=1) == labels) < 0.62
    model = fit(vectors, labels, 100.0)
    assert model is not None
    assert np.mean(model.probabilities(vectors, 2).argmax(axis=1) == labels) > 0.7


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages an error names the extra."""
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtraError, match=r"\[learn\]"):
        fit(*world(100, [0.5, 0.5], 1.0))
