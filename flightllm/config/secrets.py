"""Secrets in the configuration: named by reference, never written there."""

import os
from pathlib import Path

from flightllm.errors import ConfigError


def check_reference(key: str, reference: str | None) -> None:
    """Raise `ConfigError` where a secret is not referred to as `env:NAME` or `file:PATH`."""
    if reference is not None and not reference.startswith(("env:", "file:")):
        raise ConfigError(f"{key}: write env:NAME or file:PATH, never the secret itself")


def read_secret(key: str, reference: str) -> str:
    """Return the secret that `reference` refers to, without space around it.

    Raises:
        ConfigError: the variable is not set, the file cannot be read, or it is empty.
    """
    kind, _, place = reference.partition(":")
    try:
        value = os.environ[place] if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
    except KeyError as error:
        raise ConfigError(f"{key}: set the environment variable {place}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{key}: cannot read the file {place}: {reason}") from error
    if not value.strip():
        raise ConfigError(f"{key}: {reference!r} is empty")
    return value.strip()
