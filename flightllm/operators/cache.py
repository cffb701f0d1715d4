"""Cache answers by prompt key in SQLite, so that queries and restarts pay for each answer once."""

import hashlib
import math
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import structlog

from flightllm.common.atomic_files import set_database_aside
from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.functions.normalize import normalised
from flightllm.operators.answer_store import AnswerStore, connect, count_answers

_WAIT_SECONDS, _FAST_SECONDS = 0.002, 0.01
_FAST, _MOST_WAITING = 16, 1_024
"""An answer is on disk after at most 2 ms. Above 8,000 answers a second, it waits for 10 ms or for 1,024 answers."""
_MOVE_SECONDS = 1.0
"""Seconds between two checkpoints of the write-ahead log."""
_BUSY_SECONDS = 5.0
"""Seconds to wait for another writer or for free disk space, and then before the next try."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""SQLite's error codes for a file that is not a database, or not this one: SQLITE_ERROR is a missing table."""

_log = structlog.get_logger(__name__)


class AnswerCache(AnswerStore):
    """A map from prompt key to the model's text, in a file. Thread-safe; several processes can share a file.

    An answer is committed within milliseconds: a killed process loses no older answer, a power cut can lose the last
    few. Above `max_bytes` each commit evicts a few answers, least recently used first.

    A failure never fails a query: the cache logs and counts it. If the disk is full or another process holds the file,
    the cache tries again every few seconds. Meanwhile answers wait in memory. The cache renames a damaged file by
    adding `damaged` and a number, and begins a new one. Other processes that have the damaged file open switch to the
    new file with their next commit.
    """

    def __init__(self, path: Path, max_bytes: int = 4 << 30) -> None:
        super().__init__(max_bytes)
        self._path = path
        self._inode = 0
        """The inode of the open file."""
        self._committed = self._retry
        """The time of the last commit."""
        self._reopen()
        self._make_room(0)
        self._some, self._closed = threading.Event(), threading.Event()
        """`_some` is set while answers wait and no other thread is sure to commit them in time."""
        self._written = threading.Event()
        """Set after each commit."""
        self._checkpoint = threading.Lock()
        """Held during a checkpoint: SQLite refuses a second one meanwhile. A thread with `_lock` can wait for it."""
        self._threads = [
            threading.Thread(target=work, name="answer-cache", daemon=True) for work in (self._commit_late, self._move)
        ]
        for thread in self._threads:
            thread.start()

    def _reopen(self) -> None:
        """Open the database if it is not open; rename a damaged file first. The caller holds the lock."""
        again = self._database is None
        while again:
            try:
                if not self._path.parent.is_dir():
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                self._set_lost_log_aside()
                self._database = connect(str(self._path), _BUSY_SECONDS)
                self._inode = self._path.stat().st_ino
                again = False
            except (OSError, sqlite3.Error) as error:
                again = self._is_set_aside(error)

    def _set_lost_log_aside(self) -> None:
        """Rename a write-ahead log whose file is missing or empty: SQLite would delete it with its answers."""
        log = self._path.with_name(f"{self._path.name}-wal")
        with suppress(FileNotFoundError):
            lost = log.stat().st_size > 0 and not (self._path.exists() and self._path.stat().st_size)
            if lost:
                if not self._path.exists():
                    self._path.touch()
                aside = set_database_aside(self._path)
                self._failures += 1
                _log.warning("answer cache lost its file, a new file replaces it", set_aside=str(aside))

    def _leave_moved(self) -> bool:
        """Close a file that another process renamed or removed; tell whether it did. The caller holds the lock."""
        if self._database is None:
            return False
        try:
            if self._path.stat().st_ino == self._inode:
                return False
        except FileNotFoundError:
            pass
        except OSError:  # the path is unreadable now
            return False
        with suppress(sqlite3.Error):
            self._database.close()
        self._database = None
        return True

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer; it is on disk within milliseconds, or after the next `flush`."""
        with self._lock:
            self._waiting[key] = text
            if self._due():
                self._commit()
            elif len(self._waiting) == 1:
                self._some.set()

    def _due(self) -> bool:
        """Return whether to commit the waiting answers now. The caller holds the lock."""
        count = len(self._waiting)
        if count >= _MOST_WAITING:
            return True
        return time.monotonic() - self._committed >= (_WAIT_SECONDS if count < _FAST else _FAST_SECONDS)

    def flush(self) -> None:
        """Commit waiting answers, before rows with these answers go out."""
        if not (self._waiting or self._used):
            return
        with self._lock:
            self._commit()

    def clear(self) -> int:
        """Delete all answers, give their disk space back, and return how many there were.

        Raises:
            InternalError: the answers cannot be removed now, and stay.
        """
        with self._lock:
            self._commit()
            self._waiting.clear()
            self._counted = (-math.inf, 0, 0)
            database, failures = self._database, self._failures
            gone = self._delete_all()
            if self._failures != failures and self._database is database:  # a new file after damage is empty
                raise InternalError(
                    "the answers cannot be removed now, so they stay: the disk is full or fails, or another process"
                    " holds the file; the server's log says which"
                )
            if self._database is not None:
                with self._checkpoint, suppress(sqlite3.Error):
                    self._database.execute("VACUUM")
                    self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._written.set()  # while another process reads, only a later checkpoint gives the space back
            return gone

    def _kept(self) -> tuple[int, int]:
        """Return the number of answers in the cache, and their bytes."""
        with self._lock:
            self._commit()
            size, entries = self._used_bytes(), 0
        if self._path.exists():
            with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database:
                entries = count_answers(database)
        return entries, size

    def close(self) -> None:
        """Commit and close. Idempotent."""
        self.flush()
        self._closed.set()
        self._some.set()
        self._written.set()
        for thread in self._threads:
            thread.join()
        with self._lock:
            if self._database is not None:
                self._database.close()

    def _commit_late(self) -> None:
        """Commit the last answers of a burst, when no further answers arrive to trigger a commit."""
        while not self._closed.is_set():
            self._some.wait()
            self._some.clear()
            while self._waiting and not self._closed.is_set():
                self._closed.wait(max(_WAIT_SECONDS, min(self._retry - time.monotonic(), _FAST_SECONDS * 10)))
                with self._lock:
                    if self._due():
                        self._commit()

    def _move(self) -> None:
        """Move committed pages from SQLite's write-ahead log to their place in the file.

        This waits for the disk, on a connection of its own, so that queries do not have to.
        """
        while not self._closed.is_set():
            self._written.wait()
            self._written.clear()
            with (
                self._checkpoint,
                suppress(sqlite3.Error),
                closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database,
            ):
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._closed.wait(_MOVE_SECONDS)

    def _commit(self) -> None:
        """Commit waiting answers, and evict old ones. The caller holds the lock."""
        if self._write_waiting():
            self._written.set()

    def _open(self) -> None:
        """Open the file before a commit, unless the present file is open. The caller holds the lock."""
        self._committed = time.monotonic()
        self._leave_moved()
        self._reopen()

    def _fail(self, error: sqlite3.Error) -> None:
        """Continue after a failure of the open database. The caller holds the lock."""
        if self._is_set_aside(error):
            self._reopen()

    def _is_set_aside(self, error: OSError | sqlite3.Error) -> bool:
        """Rename a damaged file and return True; after any other failure, schedule the next try and return False."""
        self._failures += 1
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # the higher bits say why
        if code not in _DAMAGED or not self._path.exists():
            _log.warning("answer cache fails, answers wait in memory", error=str(error), waiting=len(self._waiting))
            self._retry = time.monotonic() + _BUSY_SECONDS
            if code == sqlite3.SQLITE_READONLY and self._database is not None:
                self._database.close()  # SQLite keeps a connection read-only if its file once was
                self._database = None
            return False
        if self._leave_moved():
            return True
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        try:
            aside = set_database_aside(self._path)
        except OSError as failed:
            _log.warning("answer cache damaged, answers wait in memory", error=str(failed))
            self._retry = time.monotonic() + _BUSY_SECONDS
            return False
        _log.warning("answer cache damaged, a new file replaces it", error=str(error), set_aside=str(aside))
        return True


class CacheKeys:
    """Cache keys of one call site: hashes of model revision, parameters, instruction, layout, and named values.

    Values that are equal after the call's `normalize` have the same key. Otherwise prompts of different texts have
    different keys: models answer them differently. Calls that read one answer in different ways, such as with its
    confidence or by examples, share it.
    """

    def __init__(self, call: AICall, revision: str, wording: str = "", *, fields_first: bool = False) -> None:
        """`wording` tells the prompt's words from those of an earlier version, see `Question.revision`."""
        site: tuple[object, ...] = (revision, call.model, call.parameters, call.function, call.instruction)
        if wording:
            site = (*site, "words", wording)
        self._normalize = call.normalize
        if call.normalize:
            site = (*site, sorted(call.normalize))
        if call.numeric:
            site = (*site, str(call.output))
        if fields_first:
            site = (*site, "fields first")
        self._one_field = hashlib.blake2b(repr(site).encode(), digest_size=16).digest()
        # Earlier versions sorted the fields in the key, so their answers to several fields are not found again.
        self._fields = hashlib.blake2b(repr((*site, "in order")).encode(), digest_size=16).digest()

    def key(self, fields: Sequence[tuple[str, str]]) -> bytes:
        """Return the key of the prompt with these named values, in the order of the prompt."""
        if self._normalize:
            fields = [(name, normalised(value, self._normalize)) for name, value in fields]
        text = "".join([f"{name}\0{len(value)}\0{value}" for name, value in fields])
        site = self._one_field if len(fields) < 2 else self._fields
        return hashlib.blake2b(site + text.encode(), digest_size=16).digest()
