"""Targets that cannot be promised are refused."""

from typing import Any

import pytest

from flightllm.quality.targets import Targets


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"recall": 1.0}, "recall must lie between 0 and 1"),
        ({"precision": 0.0}, "precision must lie between 0 and 1"),
        ({"recall": 0.9, "confidence": 1.0}, "confidence must lie"),
        ({}, "Give recall, precision or accuracy"),
        ({"recall": 0.9, "label_budget": -1}, "label_budget must be 0 or more"),
    ],
)
def test_impossible_targets_are_refused(rates: dict[str, Any], message: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(ValueError, match=message):
        Targets(**rates)
