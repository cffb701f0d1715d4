"""Hashing of passwords and tokens."""

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from flightllm.common.newest import Newest
from flightllm.errors import BusyError, InvalidInputError

_hasher = PasswordHasher()
_AT_ONCE = threading.BoundedSemaphore(2)
"""Each check takes 64 MiB and tens of milliseconds on purpose; more at once would let strangers fill the memory."""
_ROOM = threading.BoundedSemaphore(2 + 256)
"""Calls that check a password or wait for a check: each holds a thread."""
_WAIT_SECONDS = 10.0
"""The longest wait for a check; checks take less, unless the machine is overloaded."""
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$GqTmnJGsQ0nfFeDZPKlgcA$k6A1m0Fv0W0LhCwCh/gA1t6cAbUKe5LkmzbvMfdFLVk"
"""A hash that no password has: checked for unknown names, so that the time taken does not tell which users exist."""
_SHORTEST = 8
_BUSY = "too many are signing in right now: try again in a moment"
TOKEN_PREFIX = "flightllm_"  # noqa: S105 - the prefix of tokens, by which scanners find leaked secrets


def hash_password(password: str) -> str:
    """Return the Argon2id hash of a password.

    Raises:
        InvalidInputError: the password has fewer than 8 characters.
    """
    if len(password) < _SHORTEST:
        raise InvalidInputError(f"the password is too short: write at least {_SHORTEST} characters")
    return _hasher.hash(password)


class _Known:
    """Passwords that were verified in this process, as hashes under a random key. Thread-safe.

    A verified password needs no second check. So strangers who try passwords cannot delay the server's users.
    """

    def __init__(self, most: int) -> None:
        self._key = secrets.token_bytes(32)
        self._hashes = Newest[bytes, None](most)
        self._lock = threading.Lock()

    def add(self, password: str, kept: str) -> None:
        """Remember a password with the hash that it matches."""
        with self._lock:
            self._hashes[self._hash(password, kept)] = None

    def has(self, password: str, kept: str) -> bool:
        """Return whether a password was verified for a hash before."""
        hashed = self._hash(password, kept)
        with self._lock:
            return hashed in self._hashes

    def _hash(self, password: str, kept: str) -> bytes:
        return hashlib.blake2b(f"{kept}\0{password}".encode("utf-8", "surrogatepass"), key=self._key).digest()


_known = _Known(10_000)


def is_password(password: str, kept: str | None) -> bool:
    """Return whether a password matches a stored hash; a call without a hash takes as long.

    Raises:
        BusyError: too many passwords are being checked.
    """
    if kept and _known.has(password, kept):
        return True
    with _room():
        if kept and _known.has(password, kept):  # a concurrent login has verified it meanwhile
            return True
        try:
            _hasher.verify(kept or _NOBODY, password)
        except (VerificationError, InvalidHashError):
            return False
    if kept:
        _known.add(password, kept)
    return kept is not None


@contextmanager
def _room() -> Iterator[None]:
    """Wait for a slot in which to check a password."""
    if not _ROOM.acquire(blocking=False):
        raise BusyError(_BUSY)
    try:
        if not _AT_ONCE.acquire(timeout=_WAIT_SECONDS):
            raise BusyError(_BUSY)
        try:
            yield
        finally:
            _AT_ONCE.release()
    finally:
        _ROOM.release()


def new_token() -> str:
    """Return a fresh random API token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the hash under which a token is stored; a long random token needs no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()
