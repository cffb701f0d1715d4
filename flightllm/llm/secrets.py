"""Secrets by reference: an option names where a key, token or password is, never what it is."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from flightllm.errors import ConfigError

_SECRET = re.compile(r"key|secret|passw|credential|authoriz|bearer|token(?!s)|(?:^|_)auth(?:_|$)")
_REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)


def holds_secret(option: str, value: object) -> bool:
    """Tell whether an option's value is itself a secret, or an address with one in it, instead of a reference."""
    if names_secret(option):
        return not (isinstance(value, str) and _REFERENCE.fullmatch(value))
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:  # no address after all
        return False
    return "@" in parts.netloc or any(names_secret(name) for name, _ in parse_qsl(parts.query))


def names_secret(option: str) -> bool:
    """Tell whether an option of this name is for a secret."""
    return _SECRET.search(option.lower()) is not None


def read_secret(option: str, reference: str) -> str:
    """Return what `env:NAME` or `file:PATH` refers to; errors do not show the path.

    Raises:
        ConfigError: the variable is not set, the file cannot be read, it is empty, or it is no reference.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"[engine] {option}: write 'env:NAME' or 'file:PATH', never the secret itself")
    kind, place = match.groups()
    try:
        value = os.environ.get(place, "") if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"[engine] {option}: the file cannot be read: {reason}") from error
    if not value.strip():
        what = f"the environment variable {place} holds nothing" if kind == "env" else "the file is empty"
        raise ConfigError(f"[engine] {option}: {what}")
    return value.strip()


def shown_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return options as clients may see them: of a secret only that it comes from a variable or a file."""
    return {name: _shown(name, value) for name, value in options.items()}


def _shown(option: str, value: object) -> object:
    if isinstance(value, Mapping):
        return shown_options(value)
    if names_secret(option):
        match = _REFERENCE.fullmatch(str(value))
        return "hidden" if match is None else f"{match[1]}:…"
    return "hidden" if holds_secret(option, value) else value
