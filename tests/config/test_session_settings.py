"""Settings of a session."""

import pytest

from flightllm.config.session_settings import Settings
from flightllm.errors import InvalidInputError


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
    [
        ("optimiser", "on", "no setting 'optimiser'; there are flightllm.optimizer"),
        ("cache", "maybe", "'on' or 'off'"),
        ("ordering", "best", "'auto' or 'none' or 'rows' or 'fixed' or 'greedy'"),
        ("priority", "urgent", "'auto' or 'interactive' or 'bulk'"),
        ("max_calls", "-1", "'none' or a whole number from 0 on"),
        ("max_calls", "1.5", "'none' or a whole number"),
        ("max_cost", "nan", "'none' or a number"),
        ("max_cost", "inf", "'none' or a number"),
    ],
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
    shown = Settings(cache=False, max_calls=20, max_cost=0.5).as_text()
    chosen = {key: shown[key] for key in ("optimizer", "cache", "ordering", "max_calls", "max_tokens", "max_cost")}
    assert list(chosen.values()) == ["on", "off", "auto", "20", "none", "0.5"]
    assert Settings().with_values(shown) == Settings(cache=False, max_calls=20, max_cost=0.5)
