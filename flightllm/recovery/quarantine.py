"""The quarantine: it blocks statements and users for a time after they preceded a crash of the server's process."""

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
"""Stands for all statements of a user, in place of a digest."""
Key: TypeAlias = tuple[str, bytes]
"""The `user_key` of a user, with the digest of one of the user's statements or with `ALL`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A blocked statement of a user. `until` is on the monotonic clock, which all processes of a machine share."""

    digest: bytes
    text: str
    query_id: str
    until: float
    user: str = ""

    @property
    def key(self) -> Key:
        """Return the look-up key."""
        return self.user, self.digest

    @property
    def name(self) -> str:
        """Return the name that an admin uses to unblock this entry."""
        return self.digest.hex()[:12] if self.digest else self.user

    @property
    def seconds(self) -> float:
        """Return the seconds until this entry is unblocked."""
        return max(0.0, self.until - time.monotonic())


def digest_of(sql: str) -> bytes:
    """Return the digest of a statement's tokens, so that comments and white space do not count.

    A text that is not valid SQL, such as an upload into a table with quotes in its name, is digested whole.
    """
    try:
        text = "\0".join([sql[token.start : token.end] for token in tokenize(sql)])
    except SqlError:
        text = sql
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def user_key(name: str) -> str:
    """Return the journal's key of a user: the name, or a digest of a long or unprintable name."""
    encoded = name.encode("utf-8", "surrogatepass")
    plain = name.isprintable() and len(encoded) <= USER_BYTES
    return name if plain else blake2b(encoded, digest_size=USER_BYTES // 2).hexdigest()


class Quarantine:
    """The blocked statements. Safe to use from several threads. `lifted` is called with each key that is unblocked.

    All admins share the empty user name. The key of this name with `ALL` is never blocked.
    """

    def __init__(self, refused: Iterable[Refused] = (), lifted: Callable[[Key], None] = lambda _: None) -> None:
        self._refused = {one.key: one for one in refused}
        self._lifted = lifted
        self._lock = threading.Lock()

    def check(self, digest: bytes, user: str = "") -> None:
        """Raise an error where a statement or its user is blocked.

        Raises:
            QuarantinedError: the statement is blocked, so sending it again does not help.
            BusyError: all of the user's statements are blocked; this one can be innocent.
        """
        if not self._refused:
            return
        for found in filter(None, map(self._refused.get, ((user, digest), (user, ALL)))):
            if (seconds := found.seconds) > 0:
                kind: type[FlightLLMError] = QuarantinedError
                what = "this statement was running when the server died, and can be the cause: the statement is"
                if found.digest == ALL:
                    kind = BusyError
                    what = "the server died several times while your statements were running: all your statements are"
                raise kind(
                    f"{what} refused for another {seconds:.0f} s; to unblock, an admin can run"
                    f" `flightllm quarantine --lift {found.name}`"
                )

    def current(self) -> list[Refused]:
        """Return the blocked statements in the order in which they were blocked."""
        with self._lock:
            self._refused = {key: one for key, one in self._refused.items() if one.seconds > 0}
            return list(self._refused.values())

    def lift(self, name: str) -> None:
        """Unblock all entries of this name: a user, or a statement of any user.

        Raises:
            NotFoundError: no entry has this name.
        """
        found = [one.key for one in self.current() if one.name == name]
        if not found:
            raise NotFoundError(f"no statement or user {name!r} is blocked; see the list of `flightllm quarantine`")
        for key in found:
            with self._lock:
                self._refused.pop(key, None)
            self._lifted(key)
