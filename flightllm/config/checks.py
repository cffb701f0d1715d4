"""Checks that several sections share."""

from flightllm.errors import ConfigError


def one_of(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Raise `ConfigError` where a value is none of the valid ones."""
    if value not in valid:
        raise ConfigError(f"{key}: expected one of {', '.join(valid)}; got {value!r}")


def at_least_one(section: str, **values: int) -> None:
    """Raise `ConfigError` for a value below 1."""
    for key, value in values.items():
        if value < 1:
            raise ConfigError(f"[{section}] {key}: expected at least 1, got {value}")


def at_least_zero(section: str, **values: int) -> None:
    """Raise `ConfigError` for a value below 0."""
    for key, value in values.items():
        if value < 0:
            raise ConfigError(f"[{section}] {key}: expected at least 0, got {value}")
