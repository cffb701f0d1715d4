"""The secrets of this process, and the one place that removes them from texts for clients, logs and system tables.

Code that reads a secret keeps it here. Every text that leaves the process passes `redacted`.
"""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
LEAST = 6
"""The shortest text to hide: shorter texts occur by chance."""
_SCHEMES = frozenset({"bearer", "basic", "token", "apikey", "api-key", "key", "digest"})
_OF_A_KEY = re.compile("key|token|secret|sig|pass|pwd|code|auth|cred|session", re.IGNORECASE)
"""The names of parameters that hold secrets."""
_PLACEHOLDERS = frozenset({"ollama", "lm-studio", "not-needed", "no-key-required", "bearer"})
"""Words that users write where an endpoint needs no key."""


class _Secrets:
    """The secrets that were read so far, and a pattern of all their forms. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._forms: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.longest = 0
        """The number of characters of the longest form."""
        self._lock = Lock()

    def add(self, value: str) -> None:
        """Add a secret with all forms in which a text can quote it."""
        if value in self._known:
            return
        with self._lock:
            self._known |= {value}
            self._forms |= {form for part in _parts(value) for form in _forms(part)}
            if self._forms:
                longest_first = sorted(self._forms, key=len, reverse=True)
                self.longest = len(longest_first[0])
                self.pattern = re.compile("|".join(map(re.escape, longest_first)))


_SECRETS = _Secrets()  # of the process: what one part reads, another part must not show


_TRIED: ContextVar[list[str] | None] = ContextVar("secrets of a trial", default=None)


def keep_secret(value: str) -> None:
    """Note a secret of this process, so that no text shows it."""
    tried = _TRIED.get()
    if tried is None:
        _SECRETS.add(value)
    else:
        tried.append(value)


def shown_value(value: object) -> str:
    """Return a wrong value of an option as an error quotes it; nothing for a value that can hold a secret."""
    short = isinstance(value, int | float) or (isinstance(value, str) and len(value) < LEAST)
    return repr(value) if short else ""


@contextmanager
def kept_if_done() -> Iterator[None]:
    """Note the secrets of this block at its end, and only if it succeeds.

    So the values of a refused statement are hidden from no other text.
    """
    tried = list[str]()
    token = _TRIED.set(tried)
    try:
        yield
    finally:
        _TRIED.reset(token)
    for value in tried:
        keep_secret(value)


def longest_secret() -> int:
    """Return the number of characters of the longest form of a known secret; 0 without secrets."""
    return _SECRETS.longest


def redacted(text: str) -> str:
    """Return a text in which `***` replaces every known secret.

    It finds secrets that are quoted, escaped, in one case, or encoded for URLs or as Base64.
    """
    pattern = _SECRETS.pattern
    return text if pattern is None else pattern.sub(HIDDEN, text)


def redacted_start(text: str, most: int) -> str:
    """Return the first `most` characters of a text as `redacted` shows them; the rest is hardly read.

    A secret that begins before the cut is hidden whole, so no part of it stays.
    """
    pattern = _SECRETS.pattern
    if pattern is None:
        return text[:most]
    pieces, end = list[str](), 0
    for found in pattern.finditer(text, 0, most + _SECRETS.longest):
        if found.start() >= most:
            break
        pieces += [text[end : found.start()], HIDDEN]
        end = found.end()
    return "".join(pieces) + text[end:most]


def _parts(value: str) -> Iterator[str]:
    """Yield a secret, the key after a scheme such as `Bearer`, and the password and keys of an address.

    The other words of a long secret stay: errors have these words, too.
    """
    if "://" not in value:
        yield value
        scheme, _, key = value.partition(" ")
        if key and scheme.lower() in _SCHEMES:
            yield key.strip()
        return
    try:
        parts = urlsplit(value)
        found = [parts.password, *(one for name, one in _parameters(parts.query) if _OF_A_KEY.search(name))]
        if parts.password is None:  # some services take a token as the user
            found.append(parts.username)
    except ValueError:
        yield value
        return
    for one in found:
        if one and one != parts.hostname:
            yield from (one, unquote(one))


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        yield (name, value) if value else ("key", name)


@lru_cache(maxsize=1_024)
def _forms(value: str) -> frozenset[str]:
    if len(value) < LEAST or value.lower() in _PLACEHOLDERS:
        return frozenset()
    raw = value.encode("utf-8", "surrogatepass")
    quoted = {quote(raw), quote(raw, safe=""), quote_plus(raw)}
    quoted |= {re.sub("%..", lambda found: found[0].lower(), one) for one in quoted}
    escaped = {repr(value)[1:-1], repr(raw)[2:-1], json.dumps(value)[1:-1], html.escape(value)}
    escaped |= {json.dumps(json.dumps(value)[1:-1])[1:-1], value.replace("'", "''"), raw.hex()}
    cased = {one for text in (value, *quoted) for one in (text.lower(), text.upper())}  # some proxies change headers
    return frozenset({value, *quoted, *escaped, *cased, *_base64(raw)})


def _base64(value: bytes) -> Iterator[str]:
    """Yield the characters that a secret always has in Base64, at each of the three places in a longer text."""
    for shift in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            whole = encode(b"\0" * shift + value).decode().rstrip("=")
            begin = (0, 2, 3)[shift]
            end = len(whole) - ((shift + len(value)) % 3 > 0)
            if end - begin >= LEAST:
                yield whole[begin:end]
