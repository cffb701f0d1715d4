"""The state of a connection's transaction, as PostgreSQL tells it: idle, open or failed."""

from collections.abc import Sequence

from flightllm.errors import UnsupportedError
from flightllm.postgres.failures import WireError
from flightllm.postgres.local_settings import PutBack
from flightllm.postgres.messages import FAILED, IDLE, OPEN
from flightllm.sql.tokens import Token

_WORDS = ("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release")


class Transaction:
    """A transaction holds statements together for the client; each statement still takes effect by itself."""

    def __init__(self) -> None:
        self.state = IDLE
        self.has_run = False
        """Whether a statement of the engine ran since it was begun."""
        self._undo: PutBack = lambda: None
        self._savepoints: dict[str, tuple[int, PutBack]] = {}

    @property
    def is_open(self) -> bool:
        """Return whether a transaction was begun and has not ended."""
        return self.state != IDLE

    def begin(self, undo: PutBack) -> None:
        """Begin; `undo` goes back to the present settings."""
        self.state, self.has_run, self._undo = OPEN, False, undo

    def end(self, *, undone: bool) -> None:
        """End, and go back to the settings of the begin if all is undone."""
        self.state = IDLE
        self._savepoints.clear()
        undo, self._undo = self._undo, lambda: None
        if undone:
            undo()

    def fail(self) -> None:
        """Refuse further statements of an open transaction."""
        if self.state == OPEN:
            self.state = FAILED

    def check(self, tokens: Sequence[Token]) -> None:
        """Check that a statement can run.

        Raises:
            WireError: the transaction has failed, and the statement does not end it.
        """
        if self.state == FAILED and not (tokens and tokens[0].is_word("commit", "end", "rollback", "abort")):
            raise WireError("25P02", "current transaction is aborted, commands ignored until end of transaction block")

    def save(self, name: str, changes: int, undo: PutBack) -> None:
        """Set a savepoint; `changes` counts the connection's changes so far, and `undo` goes back to its settings.

        Raises:
            WireError: no transaction is open.
        """
        if self.state == IDLE:
            raise WireError("25P01", "SAVEPOINT can only be used in transaction blocks")
        self._savepoints.pop(name, None)
        self._savepoints[name] = changes, undo

    def release(self, name: str) -> None:
        """Forget a savepoint and those after it.

        Raises:
            WireError: there is no such savepoint.
        """
        self._cut(name, keep=False)

    def roll_back_to(self, name: str, changes: int) -> None:
        """Go on after a failed statement, with the settings of the savepoint.

        Raises:
            WireError: there is no such savepoint.
            UnsupportedError: a statement since the savepoint changed something.
        """
        before, undo = self._cut(name, keep=True)
        self.state = OPEN
        if changes > before:
            raise UnsupportedError(
                f"ROLLBACK TO SAVEPOINT {name} undid nothing: every statement takes effect by itself here"
            )
        undo()

    def _cut(self, name: str, *, keep: bool) -> tuple[int, PutBack]:
        if name not in self._savepoints:
            raise WireError("3B001", f'savepoint "{name}" does not exist')
        names = list(self._savepoints)
        before = self._savepoints[name]
        for later in names[names.index(name) + keep :]:
            del self._savepoints[later]
        return before


def is_transaction(tokens: Sequence[Token]) -> bool:
    """Return whether a statement begins or ends a transaction, or a part of one."""
    return bool(tokens) and tokens[0].is_word(*_WORDS)
