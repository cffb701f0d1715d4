"""A promise about a query is split over its operators."""

import pytest

from flightllm.quality.split import split
from flightllm.quality.targets import Targets


def test_budget_moves_to_where_it_saves_most() -> None:
    """An operator whose price falls fast with looser targets gets more of the allowed errors; the sum stays."""
    whole = Targets(recall=0.9, precision=0.9, confidence=0.9)
    parts = split(whole, ["label", "label"], lambda at, part: (10 if at else 1) * (part.accuracy or 0) ** 50)
    first, second = (1 - (part.accuracy or 0) for part in parts if part)
    assert second > first
    assert first + second == pytest.approx(0.1)
    assert sum(part.delta for part in parts if part) == pytest.approx(0.1)


def test_a_second_filter_is_refused() -> None:
    """The rates of two filters in a row prove nothing about the result, so no second filter gets a share."""
    with pytest.raises(ValueError, match="One filter"):
        split(Targets(recall=0.9, precision=0.9), ["filter", "filter", "label"])


def test_labels_get_an_accuracy() -> None:
    """A classify has no yes and no, so its part of the promise is an accuracy."""
    first, second = split(Targets(recall=0.9, precision=0.8), ["filter", "label"])
    assert second == Targets(accuracy=1 - 0.5 * 0.1 * 0.9, confidence=1 - 0.05 / 2)
    assert first == Targets(recall=0.95, precision=0.9, confidence=1 - 0.05 / 2)
    assert split(Targets(recall=0.9), ["label"]) == [Targets(accuracy=0.9)]


def test_recall_alone_bounds_no_labels() -> None:
    """Behind a filter without a precision, any number of rows could have a wrong label."""
    assert split(Targets(recall=0.9), ["filter", "label"])[1] is None
    assert split(Targets(precision=0.9), ["filter", "label"])[1] == Targets(accuracy=0.95, confidence=0.975)


@pytest.mark.parametrize("recall", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("precision", [0.6, 0.9, 0.97])
@pytest.mark.parametrize("labels", [0, 1, 3])
def test_worst_case_keeps_the_targets(recall: float, precision: float, labels: int) -> None:
    """With as many errors as each part allows, all of them on other rows, the rows of the result keep both targets."""
    found = split(Targets(recall=recall, precision=precision), ["filter", *["label"] * labels])
    first, *others = [part for part in found if part is not None]
    wanted = 1_000_000.0
    kept = wanted * (first.recall or 0)
    returned = kept / (first.precision or 0)
    right = kept - sum((1 - (part.accuracy or 0)) * returned for part in others)
    assert right / wanted >= recall - 1e-9
    assert right / returned >= precision - 1e-9
