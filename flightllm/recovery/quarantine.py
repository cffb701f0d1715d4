"""Statements, and users, refused for a while: they were there each time that the server's process died."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from flightllm.errors import BusyError, FlightLLMError, NotFoundError, QuarantinedError, SqlError
from flightllm.recovery.journal import USER_BYTES
from flightllm.sql.tokens import tokenize

ALL = b""
"""In place of a digest: every statement of a user."""
Key: TypeAlias = tuple[str, bytes]
"""A user, as `user_key` says, and the digest of one of its statements, or `ALL`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A user's statement refused until `until` on the monotonic clock, which all processes of a machine share."""

    digest: bytes
    text: str
    query_id: str
    until: float
    user: str = ""

    @property
    def key(self) -> Key:
        """Return what it is looked up by."""
        return self.user, self.digest

    @property
    def name(self) -> str:
        """Return what an administrator calls it."""
        return self.digest.hex()[:12] if self.digest else self.user

    @property
    def seconds(self) -> float:
        """Return how long it is still refused."""
        return max(0.0, self.until - time.monotonic())


def digest_of(sql: str) -> bytes:
    """Return what tells one statement from another: its tokens, so that comments and white space do not count.

    What is no SQL, as an upload into a table with quotes in its name, is told by its text.
    """
    try:
        text = "\0".join([sql[token.start : token.end] for token in tokenize(sql)])
    except SqlError:
        text = sql
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def user_key(name: str) -> str:
    """Return what stands for a user: the name, or where that is long or odd, a digest of it."""
    encoded = name.encode("utf-8", "surrogatepass")
    plain = name.isprintable() and len(encoded) <= USER_BYTES
    return name if plain else blake2b(encoded, digest_size=USER_BYTES // 2).hexdigest()


class Quarantine:
    """The refused statements. Safe to use from several threads. `lifted` is told the keys of those that are let go.

    The user of all admins is the empty one, so that none of them is ever refused altogether.
    """

    def __init__(self, refused: Iterable[Refused] = (), lifted: Callable[[Key], None] = lambda _: None) -> None:
        self._refused = {one.key: one for one in refused}
        self._lifted = lifted
        self._lock = threading.Lock()

    def check(self, digest: bytes, user: str = "") -> None:
        """Let a statement of a user pass, unless it is refused.

        Raises:
            QuarantinedError: this one is: sending it again is no use.
            BusyError: all of the user's are, this one may be innocent.
        """
        if not self._refused:
            return
        for found in filter(None, map(self._refused.get, ((user, digest), (user, ALL)))):
            if (seconds := found.seconds) > 0:
                kind: type[FlightLLMError] = QuarantinedError
                what = "this statement was running when the server died, and may have been the cause: it is"
                if found.digest == ALL:
                    kind = BusyError
                    what = "the server died again and again while statements of yours were running: all of yours are"
                raise kind(
                    f"{what} refused for another {seconds:.0f} s; an administrator lifts this with"
                    f" `flightllm quarantine --lift {found.name}`"
                )

    def current(self) -> list[Refused]:
        """Return those still refused, in the order in which they were."""
        with self._lock:
            self._refused = {key: one for key, one in self._refused.items() if one.seconds > 0}
            return list(self._refused.values())

    def lift(self, name: str) -> None:
        """Let go of those of that name: a user, or a text, whoever sent it.

        Raises:
            NotFoundError: none has this name.
        """
        found = [one.key for one in self.current() if one.name == name]
        if not found:
            raise NotFoundError(f"no statement or user {name!r} is refused; see `flightllm quarantine`")
        for key in found:
            with self._lock:
                self._refused.pop(key, None)
            self._lifted(key)
