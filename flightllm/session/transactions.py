"""BEGIN, COMMIT and ROLLBACK where every statement takes effect by itself: nothing is undone, and that is said."""

import secrets
from threading import Lock

import structlog

from flightllm.errors import NotFoundError, UnsupportedError

_log = structlog.get_logger(__name__)
_MOST = 1_000
"""Transactions of a session that were begun and never ended."""


class Transactions:
    """The transactions of one session: what was changed since each began. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changes = 0
        self._begun: dict[bytes, int] = {}
        self._in_sql: int | None = None
        """Changes there were at BEGIN in SQL."""
        self._warned = False

    def changed(self) -> None:
        """Count a statement that has taken effect."""
        with self._lock:
            self._changes += 1

    def begin(self) -> bytes:
        """Begin one by the protocol's action; return its id.

        Raises:
            UnsupportedError: many are open.
        """
        self._warn()
        with self._lock:
            if len(self._begun) >= _MOST:
                raise UnsupportedError(f"the session has {_MOST:,} open transactions: end some")
            name = secrets.token_bytes(16)
            self._begun[name] = self._changes
            return name

    def check(self, name: bytes) -> None:
        """Raise `NotFoundError` where there is no transaction of this id."""
        with self._lock:
            if name not in self._begun:
                raise NotFoundError("there is no such transaction: it has ended, or is another session's")

    def end(self, name: bytes, *, commit: bool) -> None:
        """End one.

        Raises:
            NotFoundError: there is none of this id.
            UnsupportedError: something was changed in it, and it was to be undone.
        """
        self.check(name)
        with self._lock:
            changes = self._changes - self._begun.pop(name, self._changes)
        if changes and not commit:
            raise _not_undone(changes, "; some drivers want a new connection now")

    def run(self, word: str) -> None:
        """Run a statement that begins with BEGIN, COMMIT, ROLLBACK or the like.

        Raises:
            UnsupportedError: something was changed since BEGIN, and it was to be undone.
        """
        if word in {"savepoint", "release"}:
            return
        if word in {"begin", "start"}:
            self._warn()
            with self._lock:
                self._in_sql = self._changes if self._in_sql is None else self._in_sql
            return
        with self._lock:
            before, self._in_sql = self._in_sql, None
            changes = 0 if before is None else self._changes - before
        if changes and word in {"rollback", "abort"}:
            raise _not_undone(changes)

    def _warn(self) -> None:
        """Say once for each session that its transactions are none."""
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            _log.warning("transactions undo nothing: every statement takes effect by itself")


def _not_undone(changes: int, hint: str = "") -> UnsupportedError:
    what = "the statement" if changes == 1 else f"the {changes:,} statements"
    return UnsupportedError(
        f"ROLLBACK undid nothing: {what} since BEGIN took effect, as every statement does by itself here{hint}"
    )
