"""Which options of an engine are secrets, and what of these is shown."""

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from flightllm.config.secrets import REFERENCE

_SECRET = re.compile(r"key|secret|passw|credential|authoriz|bearer|token(?!s)|(?:^|_)auth(?:_|$)")


def holds_secret(option: str, value: object) -> bool:
    """Tell whether an option's value is itself a secret, or an address with one in it, instead of a reference."""
    if names_secret(option):
        return not (isinstance(value, str) and REFERENCE.fullmatch(value))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _table(value)
    if isinstance(value, Mapping):
        return any(holds_secret(str(name), one) for name, one in value.items())
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:  # no address after all
        return False
    return "@" in parts.netloc or any(names_secret(name) for name, _ in parse_qsl(parts.query))


def _table(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def shown_address(address: str) -> str:
    """Return an address without what is secret in it: the user's name and password, and such parameters."""
    if not holds_secret("", address):
        return address
    parts = urlsplit(address)
    query = [(name, value) for name, value in parse_qsl(parts.query) if not names_secret(name)]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(query)).geturl()


def names_secret(option: str) -> bool:
    """Tell whether an option of this name is for a secret."""
    return _SECRET.search(option.lower()) is not None


def shown_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return options as clients may see them: of a secret only that it comes from a variable or a file."""
    return {name: _shown(name, value) for name, value in options.items()}


def _shown(option: str, value: object) -> object:
    if isinstance(value, Mapping):
        return shown_options(value)
    if isinstance(value, list):
        return [_shown(option, one) for one in value]
    if names_secret(option):
        match = REFERENCE.fullmatch(str(value))
        return "hidden" if match is None else f"{match[1]}:…"
    return "hidden" if holds_secret(option, value) else value
