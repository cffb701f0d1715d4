"""A cascaded filter keeps its targets, and asks less than every row."""

import numpy as np
import pytest

from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.targets import Targets
from tests.quality.simulated import calibrated, filtered

BOTH = Targets(recall=0.9, precision=0.9, confidence=0.9)


def test_a_good_proxy_saves_questions() -> None:
    """With a sharp proxy both targets hold, and a minority of rows is asked."""
    scores, answers = calibrated(5000, 0.4, 4.0, np.random.default_rng(1))
    outcome = filtered(scores, answers, BOTH, seed=1)
    assert outcome.recall >= 0.9
    assert outcome.precision >= 0.9
    assert outcome.share < 0.6
    report = outcome.cascade.report()
    assert report.held
    assert report.recall is not None
    assert 0.9 <= report.recall <= outcome.recall


def test_the_same_seed_repeats_the_questions() -> None:
    """Two runs with one seed ask the same units in the same waves; another seed asks others."""
    scores, answers = calibrated(800, 0.4, 3.0, np.random.default_rng(2))

    def waves(seed: int) -> list[list[int]]:
        cascade = FilterCascade(scores, np.ones(800, np.int64), np.full(800, -1, np.int8), BOTH, seed)
        asked = []
        while len(units := cascade.next_wave()):
            asked.append(units.tolist())
            cascade.tell(units, answers[units])
        return asked

    assert waves(3) == waves(3)
    assert waves(3) != waves(4)


@pytest.mark.parametrize("count", [0, 1, 10, 59])
def test_few_rows_are_all_asked(count: int) -> None:
    """Sampling cannot pay for a handful of rows."""
    scores = np.linspace(0, 1, count)
    outcome = filtered(scores, (scores > 0.5).astype(np.int8), BOTH, seed=0)
    assert outcome.share == (1.0 if count else 0.0)
    assert outcome.cascade.report().held


def test_failed_scores_are_asked_and_known_answers_are_not() -> None:
    """A unit without a score is always asked; a known answer is used as it is."""
    scores, answers = calibrated(1000, 0.4, 4.0, np.random.default_rng(5))
    scores[::50] = np.nan
    known = np.full(1000, -1, np.int8)
    known[1::10] = answers[1::10]
    cascade = FilterCascade(scores, np.ones(1000, np.int64), known, BOTH, 5)
    asked = np.zeros(1000, bool)
    while len(units := cascade.next_wave()):
        asked[units] = True
        cascade.tell(units, answers[units])
    assert asked[::50].all()
    assert not asked[1::10].any()
    assert np.array_equal(cascade.verdicts()[1::10], answers[1::10])
    assert cascade.report().known_rows == 100


def test_other_units_than_the_last_wave_are_refused() -> None:
    """Answers to questions that were not asked would void the proof."""
    cascade = FilterCascade(np.linspace(0, 1, 200), np.ones(200, np.int64), np.full(200, -1, np.int8), BOTH, 0)
    cascade.next_wave()
    with pytest.raises(ValueError, match="exactly the units"):
        cascade.tell(np.array([0]), np.array([1], np.int8))


def test_an_absent_rate_closes_its_side() -> None:
    """Without a precision no row is accepted unasked; without a recall no row is rejected unasked."""
    scores, answers = calibrated(2000, 0.4, 4.0, np.random.default_rng(6))
    recall = filtered(scores, answers, Targets(recall=0.9), seed=1)
    assert recall.precision == 1
    assert recall.recall >= 0.9
    precision = filtered(scores, answers, Targets(precision=0.9), seed=1)
    assert precision.recall == 1
    assert precision.precision >= 0.9
    assert max(recall.share, precision.share) < 0.95


def test_equal_prompts_count_all_their_rows() -> None:
    """Rates are about rows: a few prompts with very many rows, all of them errors of the proxy, break no promise."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        scores, answers = calibrated(1500, 0.4, 4.0, rng)
        weights = rng.geometric(0.3, 1500)
        scores[:3], answers[:3], weights[:3] = 0.001, 1, 400
        outcome = filtered(scores, answers, BOTH, seed, weights=weights)
        report = outcome.cascade.report()
        assert report.held
        assert report.recall is not None
        assert report.precision is not None
        assert outcome.recall >= report.recall >= 0.9
        assert outcome.precision >= report.precision >= 0.9
        assert outcome.share < 0.9


def test_a_label_budget_is_never_exceeded() -> None:
    """The asking ends within the budget; the report says that the targets are not held, and what is certified."""
    scores, answers = calibrated(3000, 0.4, 3.0, np.random.default_rng(8))
    for budget in (0, 5, 100, 400, 3000):
        targets = Targets(recall=0.95, precision=0.95, label_budget=budget)
        outcome = filtered(scores, answers, targets, seed=1)
        report = outcome.cascade.report()
        assert report.asked_units <= budget
        assert report.held is (budget == 3000)
        assert report.held or "budget" in report.reason
        assert report.recall is not None
        assert report.recall <= outcome.recall


def test_null_answers_are_kept_and_are_not_yes() -> None:
    """Rows whose answer is NULL are neither accepted nor rejected, and the precision counts them as wrong."""
    rng = np.random.default_rng(9)
    scores, answers = calibrated(3000, 0.5, 4.0, rng)
    answers[rng.random(3000) < 0.1] = -1
    outcome = filtered(scores, answers, Targets(recall=0.8, precision=0.8), seed=2)
    verdicts = outcome.cascade.verdicts()
    assert set(np.unique(verdicts)) == {-1, 0, 1}
    assert outcome.precision >= 0.8
    assert outcome.share < 1


def test_a_report_can_be_recounted() -> None:
    """Each count of the report follows from the answers, and no certified bound is below the truth."""
    scores, answers = calibrated(3000, 0.3, 3.0, np.random.default_rng(10))
    outcome = filtered(scores, answers, Targets(recall=0.9, precision=0.9), seed=3)
    verdicts, report = outcome.cascade.verdicts(), outcome.cascade.report()
    assert report.rows == report.accepted + report.rejected == 3000
    assert report.accepted == (verdicts == 1).sum()
    assert report.unseen_false_rejects >= ((verdicts == 0) & (answers == 1)).sum()
    assert report.unseen_false_accepts >= ((verdicts == 1) & (answers == 0)).sum()
    assert report.asked_units == report.asked_rows == round(outcome.share * 3000)


def test_a_bin_that_changes_sides_starts_again() -> None:
    """What was gained against false rejects says nothing about false accepts, also where both share a budget."""
    scores, _ = calibrated(2000, 0.4, 3.0, np.random.default_rng(11))
    cascade = FilterCascade(scores, np.ones(2000, np.int64), np.full(2000, -1, np.int8), Targets(accuracy=0.9), 1)
    for _ in range(2):
        units = cascade.next_wave()
        cascade.tell(units, (scores[units] > 0.5).astype(np.int8))
    certificate = cascade._certificates[0]
    assert certificate.potential.min() > 0
    cut = int(cascade._reject.sum())
    cascade._place(cut - 3)
    assert (certificate.potential == 0).sum() == 3


@pytest.mark.parametrize("heavy", [10**5, 10**12])
def test_one_prompt_can_have_nearly_all_rows(heavy: int) -> None:
    """Its answer decides every rate, so it is asked, whatever its score says."""
    scores, answers = calibrated(400, 0.4, 4.0, np.random.default_rng(12))
    weights = np.ones(400, np.int64)
    scores[7], answers[7], weights[7] = 0.001, 1, heavy
    outcome = filtered(scores, answers, BOTH, seed=4, weights=weights)
    assert outcome.cascade.report().held
    assert outcome.recall >= 0.9
    assert outcome.precision >= 0.9


@pytest.mark.parametrize(
    "rates", [{"precision": 0.9}, {"recall": 0.9}, {"accuracy": 0.95}, {"recall": 0.9, "precision": 0.9}]
)
@pytest.mark.parametrize("budget", [0, 10, 100])
def test_a_spent_budget_leaves_the_likelier_side(rates: dict[str, float], budget: int) -> None:
    """A promise that is not held accepts the rows that are likely to be yes, not all rows and not no row."""
    scores, answers = calibrated(600, 0.2, 3.0, np.random.default_rng(5))
    outcome = filtered(scores, answers, Targets(**rates, label_budget=budget), seed=1)
    report = outcome.cascade.report()
    assert not report.held
    assert "budget" in report.reason
    own = ((scores >= 0.5) == answers).mean()
    assert (outcome.cascade.verdicts() == answers).mean() > own - 0.03
    assert report.accuracy is not None
    assert report.accuracy < 0.95


def test_rows_without_score_and_answer_are_not_certified() -> None:
    """No score and no budget certify nothing about the rows."""
    cascade = FilterCascade(
        np.full(600, np.nan), np.ones(600, np.int64), np.full(600, -1, np.int8), Targets(recall=0.9, label_budget=10), 1
    )
    while len(wave := cascade.next_wave()):
        cascade.tell(wave, np.zeros(len(wave), np.int8))
    report = cascade.report()
    assert not report.held
    assert report.recall == 0
    assert report.accuracy == pytest.approx(10 / 600)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [62, 100])
def test_a_prediction_has_no_negative_variance(count: int) -> None:
    """Empty bins, as of prompts with several rows, have no part in a prediction."""
    rng = np.random.default_rng(3)
    weights = rng.choice([1, 2, 4], count, p=[0.9, 0.08, 0.02])
    known = np.full(count, -1, np.int8)
    cascade = FilterCascade(rng.random(count), weights, known, Targets(recall=0.9, precision=0.9), 1)
    assert 0 < cascade.predicted() <= 1


def test_figures_of_edges() -> None:
    """No row and one row waste nothing; known answers are told; the allowed error is a round number."""
    for count in (0, 1):
        cascade = FilterCascade(
            np.full(count, 0.5), np.ones(count, np.int64), np.full(count, -1, np.int8), Targets(recall=0.9), 1
        )
        while len(wave := cascade.next_wave()):
            cascade.tell(wave, np.ones(len(wave), np.int8))
        assert not cascade.report().useless
    known = FilterCascade(np.full(5, 0.5), np.ones(5, np.int64), np.ones(5, np.int8), Targets(recall=0.9), 1)
    assert not len(known.next_wave())
    assert known.report().reason == "All answers were known."
    assert known.report().delta == 0.05
