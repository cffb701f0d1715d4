"""Figures of answers, against scikit-learn and scipy."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, cohen_kappa_score, jaccard_score, precision_recall_fscore_support

from flightllm.evaluation.agreement import kappa
from flightllm.evaluation.figures import Answers, agreement, confusion, figures, of_metric
from flightllm.evaluation.truth import Question

_YES_NO = Question("yes/no")
_CLASSES = Question("classes", ("bug", "praise", "other"))


def _simulated(values: tuple[Any, ...], rows: int, right: float) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(3)
    wanted = [values[place] for place in random.integers(0, len(values), rows)]
    drawn = [values[place] for place in random.integers(0, len(values), rows)]
    keeps = random.random(rows) < right
    return wanted, [true if keep else other for true, other, keep in zip(wanted, drawn, keeps, strict=True)]


def test_figures_of_yes_and_no_are_those_of_scikit_learn() -> None:
    """Accuracy, precision, recall and F1 are equal, and lie in their intervals."""
    wanted, given = _simulated((True, False), 200, 0.6)
    found = figures(_YES_NO, wanted, Answers(given))
    precision, recall, f1, _ = precision_recall_fscore_support(wanted, given, average="binary")
    expected = {"accuracy": accuracy_score(wanted, given), "precision": precision, "recall": recall, "f1": f1}
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value)
        assert found[name].low < value < found[name].high
    assert np.isnan(found["ece"].value)


def test_figures_of_classes_are_macro_means() -> None:
    """Precision, recall and F1 are scikit-learn's macro means; a missing answer is not a class."""
    wanted, given = _simulated(_CLASSES.classes, 300, 0.7)
    given[:5] = [None] * 5
    found = figures(_CLASSES, wanted, Answers(given))
    labels = list(_CLASSES.classes)
    texts = [one or "nothing" for one in given]
    expected = precision_recall_fscore_support(wanted, texts, labels=labels, average="macro")[:3]
    assert [found[name].value for name in ("precision", "recall", "f1")] == pytest.approx(expected)
    assert found["f1"].low < found["f1"].value < found["f1"].high
    assert found["accuracy"].value == pytest.approx(accuracy_score(wanted, texts))
    assert of_metric(_CLASSES, "f1", wanted, given) == pytest.approx(expected[2])


def test_class_without_labels_and_answers_does_not_count() -> None:
    """The macro means leave out a class that is neither a label nor an answer."""
    found = figures(_CLASSES, ["bug", "praise"], Answers(["bug", "bug"]))
    wanted = precision_recall_fscore_support(["bug", "praise"], ["bug", "bug"], average="macro", zero_division=0)
    assert [found[name].value for name in ("precision", "recall", "f1")] == pytest.approx(wanted[:3])
    few, many = (Question("classes", ("bug", "praise", *others)) for others in ((), map(str, range(50))))
    both = [figures(one, ["bug", "praise"] * 20, Answers(["bug", "praise"] * 20)) for one in (few, many)]
    assert both[0] == both[1]


def test_right_answers_only_leave_doubt() -> None:
    """The interval of a macro figure has a width also if no answer is wrong."""
    found = figures(_CLASSES, ["bug", "praise"] * 20, Answers(["bug", "praise"] * 20))["f1"]
    assert found.low < found.value == found.high == 1.0


def test_calibration_error_is_that_of_the_calibration_curve() -> None:
    """The error is the mean gap of scikit-learn's calibration curve, weighted by the rows of each bin."""
    random = np.random.default_rng(8)
    sure = random.uniform(0.5, 1, 500)
    wanted = [True] * 500
    given = [bool(one) for one in random.random(500) < sure**2]
    found = figures(_YES_NO, wanted, Answers(given, list(sure)))["ece"]
    true, told = calibration_curve(given, sure, n_bins=10)
    rows = np.histogram(sure, np.linspace(0, 1, 11))[0]
    assert found.value == pytest.approx(np.abs(true - told) @ rows[rows > 0] / 500)
    assert found.low < found.value < found.high


def test_figures_of_lists_are_those_of_scikit_learn() -> None:
    """The Jaccard index is the mean over rows; accuracy counts equal sets."""
    question = Question("lists", ("a", "b", "c"))
    wanted = [frozenset("ab"), frozenset("c"), frozenset("abc")] * 20
    given = [frozenset("a"), frozenset("c"), frozenset("ab")] * 20
    found = figures(question, wanted, Answers(given))
    rows = [[[name in one for name in "abc"] for one in some] for some in (wanted, given)]
    assert found["jaccard"].value == pytest.approx(jaccard_score(*rows, average="samples"))
    assert found["accuracy"].value == pytest.approx(accuracy_score(*rows))


def test_figures_of_numbers_are_those_of_scipy() -> None:
    """The mean absolute error and Spearman's correlation are equal, and lie in their intervals."""
    random = np.random.default_rng(4)
    wanted = [float(one) for one in random.integers(0, 11, 200)]
    given = [one + float(noise) for one, noise in zip(wanted, random.normal(0, 2, 200), strict=True)]
    found = figures(Question("numbers", low=0, high=10), wanted, Answers(given))
    assert found["mae"].value == pytest.approx(np.abs(np.subtract(wanted, given)).mean())
    assert found["spearman"].value == pytest.approx(stats.spearmanr(wanted, given).statistic)
    assert all(one.low < one.value < one.high for one in found.values())


def test_row_without_a_number_has_the_worst_error() -> None:
    """A missing rating counts as far away as the scale is long."""
    assert figures(Question("numbers", low=0, high=10), [5.0, 5.0], Answers([5.0, None]))["mae"].value == 5.0


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ([[20, 5], [10, 15]], (0.3999999999999999, 0.151092290476661, 0.6489077095233389)),
        ([[44, 5, 1], [7, 20, 3], [9, 5, 6]], (0.49152542372881347, 0.35015820121748686, 0.6328926462401401)),
        ([[50, 0], [0, 50]], (1.0, 1.0, 1.0)),
    ],
)
def test_kappa_has_the_published_interval(table: list[list[int]], wanted: tuple[float, float, float]) -> None:
    """Kappa and its interval are those of statsmodels 0.14."""
    found = kappa(np.array(table))
    assert (found.value, found.low, found.high) == pytest.approx(wanted)


def test_agreement_counts_rows_that_both_answer() -> None:
    """Rows without an answer of one variant are left out; kappa is scikit-learn's."""
    first, second = _simulated(_CLASSES.classes, 100, 0.5)
    equal, found = agreement(_CLASSES, [*first, None], [*second, "bug"])
    assert equal.value == pytest.approx(accuracy_score(first, second))
    assert found.value == pytest.approx(cohen_kappa_score(first, second))


def test_confusion_counts_rows_without_an_answer_last() -> None:
    """The last column has the rows without an answer."""
    assert confusion(_YES_NO, [True, True, False], [True, None, True]).tolist() == [[1, 0, 1], [1, 0, 0]]


@pytest.mark.slow
def test_macro_interval_covers_the_truth() -> None:
    """The interval of a macro F1 covers the F1 of the population in about 95 % of samples."""
    random = np.random.default_rng(6)
    labels = np.array(_CLASSES.classes)
    true = random.choice(labels, 20_000, p=[0.5, 0.3, 0.2])
    told = np.where(random.random(20_000) < 0.75, true, random.choice(labels, 20_000))
    whole = of_metric(_CLASSES, "f1", list(true), list(told))
    covered = 0
    for _ in range(100):
        places = random.integers(0, 20_000, 150)
        one = figures(_CLASSES, list(true[places]), Answers(list(told[places])))["f1"]
        covered += one.low <= whole <= one.high
    assert covered >= 88
