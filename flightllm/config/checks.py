"""Checks that several sections of the configuration share."""

import math
from collections.abc import Collection

from flightllm.errors import ConfigError


def one_of(key: str, value: str, valid: Collection[str]) -> None:
    """Raise `ConfigError` if a value is not one of the valid ones."""
    if value not in valid:
        raise ConfigError(f"{key}: expected one of {', '.join(valid)}; got {value!r}")


def at_least_one(section: str, **values: int) -> None:
    """Raise `ConfigError` for a value below 1."""
    for key, value in values.items():
        if value < 1:
            raise ConfigError(f"[{section}] {key}: expected at least 1, got {value}")


def above_zero(section: str, **values: float) -> None:
    """Raise `ConfigError` for a value that is not above 0 and finite."""
    for key, value in values.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"[{section}] {key}: expected a number above 0, got {value:g}")


def host_and_port(key: str, listen: str) -> tuple[str, int]:
    """Return an address to listen on as host and port; port 0 means any free port.

    Raises:
        ConfigError: the address is not of the form HOST:PORT.
    """
    scheme, found, bare = listen.partition("://")
    if found:
        raise ConfigError(f"{key}: expected HOST:PORT, got {listen!r}: write {bare.rstrip('/')!r}, without {scheme}://")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{key}: expected HOST:PORT, got {listen!r}")
    return host.strip("[]"), int(port)


def at_least_zero(section: str, **values: int) -> None:
    """Raise `ConfigError` for a value below 0."""
    for key, value in values.items():
        if value < 0:
            raise ConfigError(f"[{section}] {key}: expected at least 0, got {value}")
