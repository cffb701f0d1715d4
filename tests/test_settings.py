"""Settings of a session."""

import pytest

from flightllm.errors import InvalidInputError
from flightllm.settings import Settings


@pytest.mark.parametrize("key", ["cache", "CACHE", "flightllm.cache", "FlightLLM.Cache"])
@pytest.mark.parametrize(("value", "expected"), [("on", True), ("OFF", False), ("1", True), ("false", False)])
def test_values(key: str, value: str, expected: bool) -> None:
    """A setting is named with or without its prefix, in any case, and switched by any usual word."""
    changed = Settings().with_values({key: value})
    assert changed.cache is expected
    assert changed.optimizer


def test_unchanged() -> None:
    """Changing makes new settings; the old ones stay."""
    settings = Settings()
    assert settings.with_values({"optimizer": "off"}) != settings
    assert settings == Settings()
    assert settings.with_values({}) == settings


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("optimiser", "on", "no setting 'optimiser'; there are flightllm.optimizer"), ("cache", "maybe", "'on' or 'off'")],
)
def test_refused(key: str, value: str, message: str) -> None:
    """An unknown setting or value says what is valid."""
    with pytest.raises(InvalidInputError, match=message):
        Settings().with_values({key: value})


def test_reset() -> None:
    """A setting goes back to its default, the others stay."""
    settings = Settings(optimizer=False, cache=False).reset("FLIGHTLLM.optimizer")
    assert settings == Settings(optimizer=True, cache=False)
    with pytest.raises(InvalidInputError, match="no setting"):
        settings.reset("nope")


def test_as_text() -> None:
    """Settings show as they are written in SQL."""
    assert Settings(cache=False).as_text() == {"optimizer": "on", "cache": "off"}
