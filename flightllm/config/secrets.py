"""Secrets by reference: a setting says where to find a key, token or password, and never holds the secret."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from flightllm.common.redaction import LEAST, keep_secret
from flightllm.errors import ConfigError

REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)
"""The form of a reference: `env:NAME` or `file:PATH`."""


_REST = r"[^\s\"'<>,;{}\[\]]"
_PASTED = re.compile(
    r"(?<![\w-])(?:(?:(?:sk|pk|rk|glpat|github_pat|xai|nvapi|pplx|xox[a-z])[-_](?=\S*\d)"
    r"|(?:hf|ghp|gho|gsk|r8)_(?=[A-Za-z]*\d)(?=[A-Za-z\d]{12}))|AKIA|ASIA|eyJ|AIza)"
    rf"{_REST}{{12,}}"
)
"""A key with a prefix of a known service, or a JSON Web Token. Words such as `hf_datasets/x.csv` stay."""
_NAMES_A_MODEL = re.compile(r"model|tokenizer", re.IGNORECASE)
_MODEL = re.compile(r"[\w.:@-]+(?:/[\w.:@-]+)+|(?:[A-Za-z\d]{0,15}[_.:@-])*[A-Za-z\d]{0,15}")
"""The name of a model: `xai-org/grok-2` has a `/`, and `pplx-70b-chat-alpha` has short pieces."""


_OF_A_KEY = re.compile("key|token|secret|pass", re.IGNORECASE)
_NO_KEYS = frozenset(
    {"-", "x", "xx", "xxx", "no", "na", "n/a", "none", "null", "any", "key", "token", "fake", "test", "dummy", "empty"}
)
"""Short words that users write where a service needs no key."""


OF_AN_ADDRESS = re.compile(r"url|proxy|endpoint|jwks|kv_events|kv_replay", re.IGNORECASE)
"""Names of options whose values are addresses."""
_START = re.compile(r"(?:[a-z][\w+.-]*:)*(?:https?)?[/\\]+|https?:", re.IGNORECASE)


def keep_pasted(value: object, option: str = "") -> None:
    """Note keys inside a value of any option, and the logins of its addresses: nothing shows them from now on.

    So a key at a wrong place is in no error about that place. The names of models stay, although some begin as keys do.
    """
    if isinstance(value, Mapping):
        for name, one in value.items():
            keep_pasted(name)
            keep_pasted(one, str(name))
    elif isinstance(value, list | tuple):
        for one in value:
            keep_pasted(one, option)
    elif isinstance(value, str):
        of_a_model = _NAMES_A_MODEL.search(option) is not None
        for found in _PASTED.finditer(value):
            if not (of_a_model and _MODEL.fullmatch(found[0])):
                keep_secret(found[0])
        if "://" in value or OF_AN_ADDRESS.search(option):
            keep_secret(f"x://{_START.sub('', value, count=1)}")  # the login of an address with a wrong start counts


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
    where = f"the environment variable {place}" if kind == "env" else "the file"
    return checked_secret(key, value.strip(" \t\r\n"), where)


_LOOKALIKES = {
    "\u201c": "a curly quote", "\u201d": "a curly quote", "\u2018": "a curly quote", "\u2019": "a curly quote",
    "\ufeff": "a byte order mark", "\u200b": "a zero-width space", "\u200c": "a zero-width character",
    "\u200d": "a zero-width character", "\u2060": "a zero-width character", "\u00a0": "a non-breaking space",
    "\u2013": "a dash that is not a hyphen", "\u2014": "a dash that is not a hyphen",
}  # fmt: skip
"""Characters that come along when a key is copied from a document."""


def checked_secret(key: str, value: str, where: str = "the value", *, keep: bool = True) -> str:
    """Return a secret that is one line of printable ASCII, as HTTP headers need it; no text shows it from now on.

    Without `keep` only the characters are checked.

    Raises:
        ConfigError: the secret has another character, or is too short to be hidden in texts. The error names the kind
            and place of the character, not the secret.
    """
    if keep:
        keep_secret(value)
        if len(value) < LEAST and value.lower() not in _NO_KEYS and _OF_A_KEY.search(key):
            raise ConfigError(
                f"{key}: {where} has {len(value)} characters, and a secret needs {LEAST}: a shorter one cannot be"
                " hidden in errors; write a longer secret, or none if no secret is needed"
            )
    for place, letter in enumerate(value, 1):
        if " " <= letter <= "~":
            continue
        if letter in "\r\n":
            found = "a line break: write the secret on one line"
        elif letter in _LOOKALIKES:
            found = f"{_LOOKALIKES[letter]} (U+{ord(letter):04X}): delete it"
        else:
            found = f"the character U+{ord(letter):04X}: a secret has only printable ASCII characters"
        raise ConfigError(f"{key}: character {place} of {where} is {found}")
    return value


def _parts(key: str, reference: str) -> tuple[str, str]:
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{key}: write env:NAME or file:PATH, never the secret itself")
    return match[1], match[2]
