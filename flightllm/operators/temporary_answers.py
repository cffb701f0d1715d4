"""Answers that end with the process: the newest ones in memory, the others in a temporary database."""

import math
import sqlite3
import time
from collections.abc import Sequence

import structlog

from flightllm.operators.answer_store import AnswerStore, connect, count_answers

_MOST_HELD, _ENTRY_BYTES = 32 << 20, 240
"""The bytes of answers in memory, and those of one answer beside its characters."""
PRIVATE_HELD = 4 << 20
"""The bytes of answers in memory for one query."""
_SLICE = 2_000
"""The answers that move to the database at once: other threads wait for the lock meanwhile."""
_RETRY_SECONDS = 5.0
"""Seconds until the next try after a failure of the database."""

_log = structlog.get_logger(__name__)


class TemporaryAnswers(AnswerStore):
    """A map from prompt key to the model's text, which ends with the process. Thread-safe.

    It holds its newest answers in memory, at most `most_held` bytes of them and at most `max_bytes`. Beyond that, the
    oldest of them go to a temporary database, which SQLite spills to disk, and to which `max_bytes` applies again.

    A failure never fails a query: the store logs and counts it, and tries again every few seconds.
    """

    def __init__(self, max_bytes: int = 4 << 30, most_held: int = _MOST_HELD) -> None:
        super().__init__(max_bytes)
        self._most_held = min(most_held, max_bytes)
        self._waiting_bytes = 0
        """The bytes of the waiting answers."""
        self._closed = False

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer; move some of the oldest ones to the database once memory holds too many bytes.

        A closed store remembers no answers: nothing would close the database that they go to.
        """
        with self._lock:
            if self._closed:
                return
            before = self._waiting.get(key)
            self._waiting_bytes += _held_bytes(text) - (0 if before is None else _held_bytes(before))
            self._waiting[key] = text
            if self._waiting_bytes >= self._most_held:
                self._write_waiting(_SLICE)

    def flush(self) -> None:
        """Do nothing: no answer outlives the process."""

    def clear(self) -> int:
        """Delete all answers, and return how many there were."""
        with self._lock:
            self._write_waiting()
            gone = self._count()
            self._forget()
            return gone

    def close(self) -> None:
        """Forget all answers, and delete the database. Idempotent."""
        with self._lock:
            self._closed = True
            self._forget()

    def _kept(self) -> tuple[int, int]:
        """Return the number of answers, and their bytes; this moves all answers to the database."""
        for _ in range(len(self._waiting) // _SLICE):
            with self._lock:
                self._write_waiting(_SLICE)
        with self._lock:
            self._write_waiting()
            return self._count(), self._used_bytes()

    def _count(self) -> int:
        """Return the number of answers. The caller holds the lock.

        After a failure, an answer can wait although the database has an earlier one of its key: both count as one.
        """
        stored = self._stored()
        both = sum(1 for _ in self._all(list(self._waiting))) if stored else 0
        return len(self._waiting) + stored - both

    def _stored(self) -> int:
        """Return the number of answers in the database, or 0 if it fails. The caller holds the lock."""
        try:
            return 0 if self._database is None else count_answers(self._database)
        except sqlite3.Error as error:
            self._fail(error)
            return 0

    def _open(self) -> None:
        """Open the database if it is not open. The caller holds the lock."""
        if self._database is None:
            try:
                self._database = connect("", _RETRY_SECONDS)
            except sqlite3.Error as error:
                self._fail(error)

    def _take_out(self, answers: Sequence[tuple[bytes, str]]) -> None:
        super()._take_out(answers)
        size = sum(_held_bytes(text) for _, text in answers)
        self._waiting_bytes = self._waiting_bytes - size if self._waiting else 0

    def _forget(self) -> None:
        """Forget all answers, and delete the database. The caller holds the lock."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._used.clear()
        self._old = 0
        self._counted = (-math.inf, 0, 0)
        if self._database is not None:
            self._database.close()
            self._database = None

    def _fail(self, error: sqlite3.Error) -> None:
        """Note a failure, and when to try again. The caller holds the lock."""
        self._failures += 1
        self._retry = time.monotonic() + _RETRY_SECONDS
        _log.warning("answer cache fails, answers wait in memory", error=str(error), waiting=len(self._waiting))


def _held_bytes(text: str) -> int:
    """Return the most bytes that an answer takes in memory, the same each time for a text.

    A text that is not ASCII grows once Arrow or SQLite reads it: Python then keeps its UTF-8 form beside it.
    """
    return _ENTRY_BYTES + len(text) * (1 if text.isascii() else 8)
