"""Passwords and tokens as they are kept: as hashes."""

import hashlib
import secrets
import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from flightllm.errors import InvalidInputError

_hasher = PasswordHasher()
_AT_ONCE = threading.BoundedSemaphore(2)
"""Each check takes 64 MiB and tens of milliseconds on purpose; more at once would let strangers fill the memory."""
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$GqTmnJGsQ0nfFeDZPKlgcA$k6A1m0Fv0W0LhCwCh/gA1t6cAbUKe5LkmzbvMfdFLVk"
"""The hash of no password: checked for names nobody has, so that the time taken does not tell who exists."""
_SHORTEST = 8
TOKEN_PREFIX = "flightllm_"  # noqa: S105 - what tokens begin with, for scanners of leaked secrets


def hash_password(password: str) -> str:
    """Return the Argon2id hash of a password.

    Raises:
        InvalidInputError: it has fewer than 8 characters.
    """
    if len(password) < _SHORTEST:
        raise InvalidInputError(f"a password has at least {_SHORTEST} characters")
    return _hasher.hash(password)


def is_password(password: str, kept: str | None) -> bool:
    """Tell whether a password is the one whose hash was kept; takes as long where there is none."""
    with _AT_ONCE:
        try:
            _hasher.verify(kept or _NOBODY, password)
        except (VerificationError, InvalidHashError):
            return False
    return kept is not None


def new_token() -> str:
    """Return a fresh random API token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the hash under which a token is kept; being random and long, it needs no slow one."""
    return hashlib.sha256(token.encode()).hexdigest()
