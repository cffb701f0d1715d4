"""Fits to labels: one half trains, the other half judges, and the figures hold for the population."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from flightllm.errors import InvalidInputError
from flightllm.learning.fitting import Fitted, Labels, Wanted, draw, fitted, halves, trains
from flightllm.learning.learned import Feature, Rows


def _drawn(seed: int, count: int, share: float = 0.2, noise: float = 1.0) -> Labels:
    """Return rows whose truth is a direction of the vector, and a model whose cut is in the wrong place."""
    rng = np.random.default_rng(seed)
    truth = rng.random(count) < share
    vectors = rng.normal(size=(count, 8)) + 2.0 * truth[:, None] * np.eye(8)[0]
    odds = 2.0 + noise * rng.normal(size=count) + 2.0 * truth
    chance = 1 / (1 + np.exp(-odds))
    labels = ["Yes" if one else "No" for one in truth]
    return Labels(
        Rows(np.stack([chance, 1 - chance], axis=1), vectors),
        labels,
        [str(seed * count + at) for at in range(count)],
        ["true"] * count,
    )


def _fit(labels: Labels, **targets: float) -> Fitted:
    return fitted(labels, "filter", ("embedding", "model"), ("Yes", "No"), Wanted(targets))


def test_better_than_the_model() -> None:
    """The fit finds what the model's own cut misses, and says what it learned from."""
    done = _fit(_drawn(1, 300))
    fresh = _drawn(2, 5_000)
    truth = np.array([one == "Yes" for one in fresh.labels])
    kept = np.array(done.learned.answers(fresh.rows))
    own = fresh.rows.probabilities[:, 0] > 0.5
    f1 = [2 * (one & truth).sum() / (one.sum() + truth.sum()) for one in (kept, own)]
    assert f1[0] > f1[1] + 0.2
    assert done.figures["labels"] == 300 == done.figures["trained_on"] + done.figures["judged_on"]
    assert 120 < done.figures["trained_on"] < 180
    for name in ("precision", "recall", "accuracy"):
        assert done.figures[f"{name}_at_least"] < done.figures[name]


def test_halves() -> None:
    """The halves follow from the values alone: not from the order, and not from the labels."""
    labels = _drawn(1, 101)
    train, judge = halves(labels)
    assert 35 < len(train) < 65
    assert set(train) | set(judge) == set(range(101))
    flipped = replace(labels, labels=["No"] * 101)
    assert [list(part) for part in halves(flipped)] == [list(train), list(judge)]
    order = np.random.default_rng(1).permutation(101)
    shuffled, _ = halves(labels.at(order))
    assert {order[at] for at in shuffled} == set(train)
    assert labels.at(order).digest == labels.digest != flipped.digest


def test_rows_stay_in_their_half() -> None:
    """Further labels move no row to the other half, and the half of a text follows from its own draw."""
    labels = _drawn(1, 200)
    train, judge = halves(labels)
    for count in (20, 50, 199):
        some = halves(labels.at(np.arange(count)))
        assert [list(part) for part in some] == [[at for at in part if at < count] for part in (train, judge)]
    assert [at for at, value in enumerate(labels.values) if trains(draw(value))] == list(train)


def test_looks_cost() -> None:
    """A later look at a question gets lower bounds, and its advice says so."""
    labels = _drawn(1, 300)
    wanted = Wanted({"recall": 0.99})
    features: tuple[Feature, ...] = ("embedding", "model")
    found = [fitted(labels, "filter", features, ("Yes", "No"), wanted, partial(int, look)) for look in (1, 9)]
    assert [done.figures["looks"] for done in found] == [1, 9]
    assert found[0].figures["recall"] == found[1].figures["recall"]
    assert found[0].figures["recall_at_least"] > found[1].figures["recall_at_least"]
    assert "look 9" in found[1].missed
    assert "this is look" not in found[0].missed


def test_judging_labels_do_not_train() -> None:
    """Other labels in the half that judges give the same weights and other figures."""
    labels = _drawn(3, 200)
    _, judge = halves(labels)
    changed = list(labels.labels)
    for at in judge:
        changed[at] = "No" if changed[at] == "Yes" else "Yes"
    one, other = _fit(labels), _fit(replace(labels, labels=changed))
    assert one.learned.id == other.learned.id
    assert other.figures["accuracy"] == pytest.approx(1 - one.figures["accuracy"], abs=1e-3)


def test_targets() -> None:
    """A target that the labels cannot certify is told with what would help; one that they certify holds."""
    done = _fit(_drawn(1, 60), precision=0.9, recall=0.9)
    assert re.match(r"precision 0.9 is not certified: .* at least 0\.\d+", done.missed)
    done = _fit(_drawn(1, 2_000, noise=0.1), recall=0.8)
    assert not done.missed
    assert done.figures["recall_at_least"] >= 0.8
    assert "precision_at_least" not in done.figures


@pytest.mark.parametrize("runs", [pytest.param(8, id="few"), pytest.param(300, marks=pytest.mark.slow, id="many")])
def test_the_bounds_hold(runs: int) -> None:
    """Over populations drawn again, any certified bound is above the truth in at most 5 % of the runs."""
    missed = 0
    for seed in range(runs):
        labels = _drawn(seed, 80, share=0.3)
        labels = replace(labels, rows=replace(labels.rows, vectors=labels.rows.vectors[:, :1]))
        done = _fit(labels)
        fresh = _drawn(10_000 + seed, 20_000, share=0.3)
        truth = np.array([one == "Yes" for one in fresh.labels])
        kept = np.array(done.learned.answers(replace(fresh.rows, vectors=fresh.rows.vectors[:, :1])))
        real = {
            "precision": (kept & truth).sum() / max(1, kept.sum()),
            "recall": (kept & truth).sum() / truth.sum(),
            "accuracy": (kept == truth).mean(),
        }
        missed += any(done.figures[f"{name}_at_least"] > share + 0.005 for name, share in real.items())
    assert missed <= 0.05 * runs + 2 * np.sqrt(0.05 * runs)


def test_labels_and_scores() -> None:
    """Classes have a fit with a line each, and scores a line that never falls."""
    rng = np.random.default_rng(1)
    places = rng.integers(0, 3, 300)
    chances = rng.dirichlet([1, 1, 1], 300) + 2.0 * np.roll(np.eye(3), 1, axis=1)[places]  # the model confuses them
    rows = Rows(chances / chances.sum(axis=1, keepdims=True), np.zeros((300, 0)))
    values, own = [str(at) for at in range(300)], [str("abc"[one]) for one in rows.probabilities.argmax(axis=1)]
    labels = Labels(rows, [str("abc"[one]) for one in places], values, own)
    done = fitted(labels, "label", ("model",), ("a", "b", "c"), Wanted({"accuracy": 0.7}))
    assert np.mean([one == label for one, label in zip(own, labels.labels, strict=True)]) < 0.2
    assert done.figures["accuracy_at_least"] >= 0.7
    assert not done.missed

    truth = np.array([str(one + 1) for one in places])
    scored = fitted(
        replace(labels, labels=list(truth), model=list(truth)), "score", ("model",), ("1", "2", "3"), Wanted()
    )
    assert (np.diff(scored.learned.knots[:, 1]) >= 0).all()
    assert scored.figures["mean_error"] < scored.figures["mean_error_at_most"] <= 2.0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (_drawn(1, 8), "8 labels are too few"),
        (replace(_drawn(1, 40), labels=["No"] * 40), r"0 of the \d+ labels that train are 'Yes'"),
        (replace(_drawn(1, 40), rows=Rows(np.full((40, 2), np.nan), np.zeros((40, 0)))), "too few"),
    ],
)
def test_too_few(labels: Labels, message: str) -> None:
    """Too few labels, or of one answer, are told."""
    with pytest.raises(InvalidInputError, match=message):
        _fit(labels)


def test_unknown_features_count() -> None:
    """The model's own answer judges a row without features; a row without both counts as wrong."""
    labels = _drawn(1, 200)
    _, judge = halves(labels)
    chances = labels.rows.probabilities.copy()
    chances[judge] = np.nan
    unknown = replace(labels, rows=replace(labels.rows, probabilities=chances))
    truth = ["true" if one == "Yes" else "false" for one in labels.labels]
    assert _fit(replace(unknown, model=truth)).figures["accuracy"] == 1.0
    assert _fit(replace(unknown, model=[None] * 200)).figures["accuracy"] == 0.0


def test_repeated_rows() -> None:
    """Rows that a join repeats count once, so random labels certify nothing; the order of the rows changes nothing."""
    labels = _drawn(3, 120)
    coins = replace(labels, labels=[["Yes", "No"][int(one)] for one in np.random.default_rng(5).random(120) < 0.5])
    done = _fit(coins.at(np.repeat(np.arange(120), 6)))
    assert done.figures["labels"] == 120
    assert float(done.figures["accuracy_at_least"]) < 0.6
    shuffled = _fit(coins.at(np.random.default_rng(1).permutation(120)))
    assert (shuffled.figures, shuffled.learned.id) == (done.figures, done.learned.id)


def test_unused_labels_are_told() -> None:
    """A notice counts the labels that train nothing, because their rows lack features; others give no notice."""
    labels = _drawn(1, 200)
    assert _fit(labels).notes == []
    train, judge = halves(labels)
    chances = labels.rows.probabilities.copy()
    chances[[*train[:6], *judge[:3]]] = np.nan
    done = _fit(replace(labels, rows=replace(labels.rows, probabilities=chances)))
    assert done.figures["trained_on"] == len(train) - 6
    [note] = done.notes
    assert note.startswith(f"6 of the {len(train)} labels that train are not used, because the model gave no")
