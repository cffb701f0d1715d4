"""The choice of the cheapest variant that is not significantly worse than the best."""

import numpy as np
import pytest

from flightllm.evaluation.choice import choose, frontier, labels_for_margin, worse
from flightllm.evaluation.truth import Question

_YES_NO = Question("yes/no")


def _answers(rows: int, wrong: float, seed: int) -> tuple[list[bool], list[bool]]:
    random = np.random.default_rng(seed)
    wanted = np.arange(rows) % 2 == 0
    return wanted.tolist(), np.where(
        np.random.default_rng(seed + random.integers(9)).random(rows) < wrong, ~wanted, wanted
    ).tolist()


def test_cheapest_of_equals_is_chosen() -> None:
    """Of a good variant, an equally good cheap one and a bad cheapest one, the equally good one is chosen."""
    wanted, good = _answers(400, 0.05, 1)
    _, cheap = _answers(400, 0.06, 2)
    _, bad = _answers(400, 0.3, 3)
    found = choose(_YES_NO, "accuracy", wanted, [good, cheap, bad], [10.0, 2.0, 1.0])
    assert found.chosen == 1
    assert found.worse[2] < 0.001
    assert found.worse[found.best] == 1.0


def test_equal_prices_choose_the_better() -> None:
    """Where price does not decide, the quality does."""
    wanted, good = _answers(100, 0.05, 1)
    _, other = _answers(100, 0.15, 2)
    assert choose(_YES_NO, "accuracy", wanted, [other, good], [1.0, 1.0]).chosen == 1


def test_many_equal_variants_are_not_worse() -> None:
    """The best of ten equal variants is the luckiest one; the others are seldom called worse than it."""
    rejected, runs = 0, 100
    for seed in range(runs):
        random = np.random.default_rng(seed)
        given = [(random.random(200) >= 0.2).tolist() for _ in range(10)]
        found = choose(_YES_NO, "accuracy", [True] * 200, given, [1.0] * 10)
        rejected += min(found.worse) < 0.05
    assert rejected <= 10  # 5 of 100 are expected at most; Holm's correction for the best one alone gives about 20


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_false_rejections_keep_to_alpha(metric: str) -> None:
    """Of pairs of equally good variants, about 5 % or fewer are called different."""
    rejected, runs = 0, 120
    for seed in range(runs):
        random = np.random.default_rng(seed)
        wanted = random.random(80) < 0.5
        first, second = (np.where(random.random(80) < 0.2, ~wanted, wanted).tolist() for _ in range(2))
        rejected += worse(_YES_NO, metric, wanted.tolist(), first, second) < 0.05
    assert rejected <= runs * 0.05 + 3 * np.sqrt(runs * 0.05 * 0.95)


def test_ratings_are_compared_by_their_errors() -> None:
    """A variant with twice the error is significantly worse."""
    random = np.random.default_rng(2)
    wanted = random.uniform(0, 10, 100)
    near, far = wanted + random.normal(0, 1, 100), wanted + random.normal(0, 2, 100)
    question = Question("numbers", low=0, high=10)
    for metric in ("mae", "spearman"):
        found = choose(question, metric, list(wanted), [list(far), list(near)], [1.0, 2.0])
        assert (found.best, found.chosen) == (1, 1)
        assert found.worse[0] < 0.05


def test_few_equal_answers_need_more_labels() -> None:
    """Ten rows without a difference leave much open; a thousand do not."""
    ten = choose(_YES_NO, "accuracy", [True] * 10, [[True] * 10] * 2, [1.0, 1.0])
    thousand = choose(_YES_NO, "accuracy", [True] * 1000, [[True] * 1000] * 2, [1.0, 1.0])
    assert ten.needed > 500
    assert thousand.needed < 100


@pytest.mark.slow
def test_enough_labels_show_the_difference() -> None:
    """With the number of labels that is named, a difference of five points is found in about 80 % of runs."""
    random = np.random.default_rng(9)
    rows, lost, won = 0, 0.10, 0.05
    found = choose(_YES_NO, "accuracy", *_pair(random, 4000, lost, won), [1.0, 1.0])
    rows = found.needed
    shown = [
        worse(_YES_NO, "accuracy", wanted, *given) < 0.05
        for wanted, given in (_pair(random, rows, lost, won) for _ in range(150))
    ]
    assert 0.7 < np.mean(shown) < 0.93


def _pair(random: np.random.Generator, rows: int, lost: float, won: float) -> tuple[list[bool], list[list[bool]]]:
    drawn = random.random(rows)
    wanted = [True] * rows
    return wanted, [(drawn >= won).tolist(), ((drawn < won) | (drawn >= won + lost)).tolist()]


def test_frontier_has_the_variants_that_no_other_beats() -> None:
    """A variant that is dearer and not better is not on the frontier; two equal ones both are."""
    assert frontier([0.9, 0.8, 0.8, 0.7, 0.7], [3.0, 2.0, 4.0, 1.0, 1.0]) == [True, True, False, True, True]


def test_labels_for_an_interval_have_the_known_number() -> None:
    """A share of one half needs 385 labels for five points to both sides, as in textbooks."""
    assert labels_for_margin(0.5) == 385
