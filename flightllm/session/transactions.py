"""BEGIN, COMMIT and ROLLBACK for clients that send them: every statement commits by itself.

ROLLBACK cannot undo changes, and raises an error if the transaction made a change.
"""

import secrets
from threading import Lock

import structlog

from flightllm.errors import NotFoundError, UnsupportedError

_log = structlog.get_logger(__name__)
_MOST = 1_000
"""The most transactions of a session that are open at the same time."""


class Transactions:
    """The open transactions of one session, and the number of changes since each began. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changes = 0
        self._begun: dict[bytes, int] = {}
        self._in_sql: int | None = None
        """The number of changes before the SQL statement BEGIN; None outside a SQL transaction."""
        self._warned = False

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open."""
        with self._lock:
            return bool(self._begun) or self._in_sql is not None

    def changed(self) -> None:
        """Count a statement that has taken effect."""
        with self._lock:
            self._changes += 1

    def begin(self) -> bytes:
        """Begin a transaction by the protocol's action; return its id.

        Raises:
            UnsupportedError: 1,000 transactions are open.
        """
        self._warn()
        with self._lock:
            if len(self._begun) >= _MOST:
                raise UnsupportedError(f"the session has {_MOST:,} open transactions: end some")
            name = secrets.token_bytes(16)
            self._begun[name] = self._changes
            return name

    def check(self, name: bytes) -> None:
        """Raise `NotFoundError` if no open transaction has this id."""
        with self._lock:
            if name not in self._begun:
                raise NotFoundError("there is no such transaction: it has ended, or it belongs to another session")

    def end(self, name: bytes, *, commit: bool) -> None:
        """End a transaction.

        Raises:
            NotFoundError: no open transaction has this id.
            UnsupportedError: `commit` is false, and a statement of the transaction changed something.
        """
        self.check(name)
        with self._lock:
            changes = self._changes - self._begun.pop(name, self._changes)
        if changes and not commit:
            raise _not_undone(changes, "; some drivers then need a new connection")

    def run(self, word: str) -> None:
        """Run a transaction statement by its first word: BEGIN, COMMIT, ROLLBACK or a synonym.

        SAVEPOINT and RELEASE have no effect.

        Raises:
            UnsupportedError: ROLLBACK follows a change since BEGIN.
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
        """Log once for each session that its transactions undo nothing; many drivers begin one without being asked."""
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            _log.debug("transactions undo nothing: every statement takes effect by itself")


def _not_undone(changes: int, hint: str = "") -> UnsupportedError:
    what = "the statement" if changes == 1 else f"the {changes:,} statements"
    return UnsupportedError(
        f"ROLLBACK undid nothing: {what} since BEGIN took effect, as every statement does by itself here{hint}"
    )
