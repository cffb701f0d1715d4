"""Recognise secrets among an engine's options, and hide them in output."""

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from flightllm.common.redaction import keep_secret
from flightllm.config.secrets import OF_AN_ADDRESS, REFERENCE, keep_pasted

_SECRET = re.compile(
    r"key|secret|passw|credential|authoriz|bearer|token(?!s)|(?:^|[_-])(?:auth|sig|signature)(?:[_-]|$)"
)
_PARAMETER = re.compile(r"code|pass|pwd|pw|sas|jwt|hmac")
"""Names that are secrets only as URL parameters, such as `code`, which holds the key of an Azure Function."""
_START = re.compile(r"[^@?#]*?://(?:(?<!file://)(?<!ipc://)[/\\]+)?|(?:https?|s3)?:?[/\\]+", re.IGNORECASE)
"""The start of an address; some lack a sign, or have one too many."""
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")


def holds_secret(option: str, value: object) -> bool:
    """Return whether an option's value is a secret, or an address with a secret in it; a reference is not a secret."""
    if names_secret(option):
        return not (isinstance(value, str) and (not value or REFERENCE.fullmatch(value)))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _table(value)
    if isinstance(value, Mapping):
        return any(holds_secret(str(name), one) for name, one in value.items())
    if not isinstance(value, str) or not is_address(option, value):
        return False
    return _without_user(value) != value or any(_is_secret(name) for name, _ in _parameters(value))


def is_address(option: str, value: str) -> bool:
    """Return whether an option's value is an address, or should be one: `http:/me:secret@host` is one, too."""
    return "://" in value or OF_AN_ADDRESS.search(option) is not None


def looks_like_key(text: str) -> bool:
    """Return whether a text looks like a key, wherever it stands."""
    return _LIKE_KEY.fullmatch(text) is not None


def table_of(value: object) -> object:
    """Return the table that an option's text holds as a JSON object, or the value itself."""
    return _table(value) if isinstance(value, str) and value.lstrip().startswith("{") else value


def _table(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def shown_address(address: str) -> str:
    """Return an address without its secrets: the user's name and password, and secret parameters."""
    plain = _without_user(address)
    given = _parameters(plain)
    query = [(name, value) for name, value in given if not _is_secret(name)]
    try:
        parts = urlsplit(plain)
    except ValueError:  # not a valid address
        return re.split("[?#]", plain)[0]
    if any(_is_secret(name) for name, _ in parse_qsl(parts.fragment)):
        parts = parts._replace(fragment="")
    elif query == given:
        return plain
    return parts._replace(query=urlencode(query)).geturl()


def _without_user(address: str) -> str:
    """Return an address without `user:password@`; an invalid address works too: `u:p/w@host` becomes `host`."""
    head = ""
    if start := _START.match(address):
        head = start[0]
    rest = address[len(head) :]
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if "@" in host:
        rest = rest[host.rindex("@") + 1 :]
    elif "@" in rest and not ("://" in head and _HOST.fullmatch(host)):  # a password can have the end of a host
        rest = rest.rpartition("@")[2]
    return head + rest


def _parameters(address: str) -> list[tuple[str, str]]:
    """Return the parameters after the `?`; empty if the address is invalid."""
    try:
        return parse_qsl(urlsplit(address).query)
    except ValueError:
        return []


def _is_secret(parameter: str) -> bool:
    return names_secret(parameter) or names_parameter(parameter)


def names_parameter(name: str) -> bool:
    """Return whether a parameter of an address or of another system's options holds a secret by this short name."""
    return _PARAMETER.fullmatch(name.lower()) is not None


def names_secret(option: str) -> bool:
    """Return whether an option of this name holds a secret."""
    return _SECRET.search(option.lower()) is not None


def shown_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return options as clients can see them; a secret shows only whether it comes from a variable or a file."""
    return {name: _shown(name, value, free=name in _FREE) for name, value in options.items()}


def _shown(option: str, value: object, *, free: bool = False) -> object:
    value = table_of(value)
    if isinstance(value, Mapping):
        return {name: "hidden" if option == "headers" else _shown(name, one, free=free) for name, one in value.items()}
    if isinstance(value, list):
        return [_shown(option, one, free=free) for one in value]
    if free and isinstance(value, str) and looks_like_key(value):
        return "hidden"
    if names_secret(option):
        match = REFERENCE.fullmatch(str(value))
        return "hidden" if match is None else f"{match[1]}:…"
    return "hidden" if holds_secret(option, value) else value


_FREE = frozenset({"extra_body", "organization", "project"})
"""Options whose values can be keys or ordinary words: the names inside `extra_body` are the endpoint's own."""
_PRIVATE = frozenset({"headers", "query"})
"""Options whose literal values no output needs, whatever their names."""
_PUBLIC = frozenset({"accept", "accept-encoding", "accept-language", "api-version", "content-type", "user-agent"})
"""Headers and parameters that hold no secret."""
_ORDINARY = re.compile(r"(?:[^\W\d]|[\s.-])*|\d{4}-\d\d-\d\d[\w-]*|[a-z]+/[a-z0-9.+-]+|v?[\d.]{1,7}")
"""Words without digits, dates, kinds of content and versions: errors and statements have these too."""
_LIKE_KEY = re.compile(r"(?:(?:sk|pk|rk|xox[a-z])[-_]|(?:ghp|gho|hf)_|AKIA)\S{12,}|(?=\w*\d)(?=\w*[^\W\d])\w{16,}")
"""A text that looks like a key at any place: with a usual prefix, or many letters and digits in one piece."""


def keep_secrets(options: Mapping[str, object]) -> None:
    """Note the secrets among literal options, so that no error, log or system table shows them."""
    keep_pasted(options)
    for name, value in options.items():
        _keep(name, value, private=name in _PRIVATE, free=name in _FREE)


def _keep(name: str, value: object, *, private: bool, free: bool) -> None:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _table(value)
    if isinstance(value, Mapping):
        for inner, one in value.items():
            _keep(str(inner), one, private=private, free=free)
    elif isinstance(value, list):
        for one in value:
            _keep(name, one, private=private, free=free)
    elif isinstance(value, str) and REFERENCE.fullmatch(value) is None:
        if name in {"api_key_env", "api_key_file", "tls_key"}:
            return  # a variable or a file, not the secret itself
        private = private and name.lower() not in _PUBLIC and not _ORDINARY.fullmatch(value)
        if private or holds_secret(name, value) or (free and looks_like_key(value)):
            keep_secret(value)
