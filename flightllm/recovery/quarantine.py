"""Statements refused for a while, because they were running when the server's process died."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from flightllm.errors import NotFoundError, QuarantinedError
from flightllm.sql.tokens import tokenize


@dataclass(frozen=True, slots=True)
class Refused:
    """One of them: refused until `until` on the monotonic clock, which all processes of a machine share."""

    digest: bytes
    text: str
    query_id: str
    until: float

    @property
    def name(self) -> str:
        """Return what an administrator calls it."""
        return self.digest.hex()[:12]

    @property
    def seconds(self) -> float:
        """Return how long it is still refused."""
        return max(0.0, self.until - time.monotonic())


def digest_of(sql: str) -> bytes:
    """Return what tells one statement from another: its tokens, so that comments and white space do not count."""
    tokens = "\0".join([sql[token.start : token.end] for token in tokenize(sql)])
    return blake2b(tokens.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Quarantine:
    """The refused statements. Safe to use from several threads. `lifted` is told the digest of one that is let go."""

    def __init__(self, refused: Iterable[Refused] = (), lifted: Callable[[bytes], None] = lambda _: None) -> None:
        self._refused = {one.digest: one for one in refused}
        self._lifted = lifted
        self._lock = threading.Lock()

    def check(self, digest: bytes) -> None:
        """Raise `QuarantinedError` for a statement that is refused."""
        if not self._refused:
            return
        found = self._refused.get(digest)
        if found is not None and (seconds := found.seconds) > 0:
            raise QuarantinedError(
                f"this statement was running when the server died, and may have been the cause: it is refused for "
                f"another {seconds:.0f} s; an administrator lifts this with `flightllm quarantine --lift {found.name}`"
            )

    def current(self) -> list[Refused]:
        """Return those still refused, in the order in which they were."""
        with self._lock:
            self._refused = {digest: one for digest, one in self._refused.items() if one.seconds > 0}
            return list(self._refused.values())

    def lift(self, name: str) -> None:
        """Let go of the one of that name.

        Raises:
            NotFoundError: none has this name.
        """
        found = next((one for one in self.current() if one.name == name), None)
        if found is None:
            raise NotFoundError(f"no statement {name!r} is refused; see `flightllm quarantine`")
        with self._lock:
            self._refused.pop(found.digest, None)
        self._lifted(found.digest)
