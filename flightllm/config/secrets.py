"""Secrets by reference: a setting says where to find a key, token or password, and never holds the secret."""

import os
import re
from pathlib import Path

from flightllm.errors import ConfigError

REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)
"""The form of a reference: `env:NAME` or `file:PATH`."""


def check_reference(key: str, reference: str | None) -> None:
    """Raise `ConfigError` if a setting is not of the form `env:NAME` or `file:PATH`."""
    if reference is not None:
        _parts(key, reference)


def read_secret(key: str, reference: str) -> str:
    """Return the secret that `reference` refers to, without surrounding space; errors do not show a path.

    Raises:
        ConfigError: the variable is not set, the file cannot be read or is empty, or the reference is not valid.
    """
    kind, place = _parts(key, reference)
    try:
        value = os.environ.get(place, "") if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"{key}: the file cannot be read: {reason}") from error
    if not value.strip():
        raise ConfigError(
            f"{key}: "
            + (f"set the environment variable {place}" if kind == "env" else "write the secret into the empty file")
        )
    return value.strip()


def _parts(key: str, reference: str) -> tuple[str, str]:
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{key}: write env:NAME or file:PATH, never the secret itself")
    return match[1], match[2]
