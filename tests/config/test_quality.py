"""The setting `quality`: its texts, and what is refused."""

import pytest

from flightllm.config.session_settings import Settings
from flightllm.errors import InvalidInputError
from flightllm.quality.targets import Targets

FORM = "'none' or targets such as 'recall 0.95, precision 0.9, confidence 0.95'"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("recall 0.95, precision 0.9, confidence 0.95", Targets(0.95, 0.9, confidence=0.95)),
        ("RECALL 0.95", Targets(0.95)),
        ("precision=.9,confidence=0.99", Targets(None, 0.9, confidence=0.99)),
        ("precision: 0.9", Targets(None, 0.9)),
        ("none", None),
        ("None", None),
    ],
)
def test_read(text: str, found: Targets | None) -> None:
    """The targets are read in any order and case; none turns them off. What is written is read again."""
    settings = Settings().with_values({"quality": text})
    assert settings.quality == found
    assert settings.with_values(settings.as_text()) == settings
    assert settings.reset("quality").quality is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "'none' or targets such as 'recall 0.95, precision 0.9, confidence 0.95'"),
        ("high", "'none' or targets such as"),
        ("recall 0.9, recall 0.8", f"{FORM}; recall is there twice"),
        ("accuracy 0.9", f"{FORM}; accuracy is an option of one call: write accuracy => 0.95 in the call"),
        ("recall 0.9, label_budget 50", f"{FORM}; label_budget is an option of one call"),
        ("recall 0.9, proxy small", f"{FORM}; proxy is an option of one call"),
        ("recall 0.9, precision", f"{FORM}; 'precision' lacks its number: write precision and a number"),
        ("confidence 0.9", "a recall, a precision, or both"),
        ("recall 1", "recall as a number above 0 and below 1"),
        ("precision 0", "precision as a number above 0 and below 1"),
        ("recall 0.9.5", "recall as a number above 0 and below 1"),
        ("recall 95", "recall as a number above 0 and below 1"),
    ],
)
def test_refused(text: str, advice: str) -> None:
    """The error says what to write."""
    with pytest.raises(InvalidInputError) as caught:
        Settings().with_values({"flightllm.quality": text})
    assert f"flightllm.quality cannot be {text!r}: write {advice}" in str(caught.value)
