"""Secrets by reference: a setting says where a key, token or password is, never what it is."""

import os
import re
from pathlib import Path

from flightllm.errors import ConfigError

REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)
"""`env:NAME` or `file:PATH`."""


def check_reference(key: str, reference: str | None) -> None:
    """Raise `ConfigError` where a secret is not referred to as `env:NAME` or `file:PATH`."""
    if reference is not None:
        _parts(key, reference)


def read_secret(key: str, reference: str) -> str:
    """Return the secret that `reference` refers to, without space around it; errors do not show a path.

    Raises:
        ConfigError: the variable is not set, the file cannot be read, it is empty, or it is no reference.
    """
    kind, place = _parts(key, reference)
    try:
        value = os.environ.get(place, "") if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"{key}: the file cannot be read: {reason}") from error
    if not value.strip():
        raise ConfigError(
            f"{key}: " + (f"set the environment variable {place}" if kind == "env" else "the file is empty")
        )
    return value.strip()


def _parts(key: str, reference: str) -> tuple[str, str]:
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{key}: write env:NAME or file:PATH, never the secret itself")
    return match[1], match[2]
