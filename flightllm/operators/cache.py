"""Keep answers by what was asked, in SQLite: an answer is bought once, also across queries and restarts."""

import hashlib
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import structlog

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.functions.normalize import normalised

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, text TEXT NOT NULL)
"""
"""The lowest ids are forgotten first; an answer that is used moves from the older half to the end."""
_INSERT = "INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)"
_SELECT = "SELECT id, key, CAST(text AS BLOB) FROM answers WHERE key IN"
"""As bytes: a text that is no UTF-8 would fail the whole look-up."""
_TOUCH = "UPDATE answers SET id = (SELECT max(id) + 1 FROM answers) WHERE key = ?"
_MIDDLE = "SELECT (SELECT min(id) FROM answers) + (SELECT max(id) FROM answers)"
"""Both in one query would read the whole table."""
_LOOKUP = 500
_WAIT_SECONDS, _FAST_SECONDS = 0.002, 0.01
_FAST, _MOST_WAITING = 64, 256
"""An answer is on disk after 2 ms at most; where more than 32,000 come a second, after 10 ms or 256 of them."""
_MOVE_SECONDS, _MOST_PAGES = 1.0, 16_384
"""How often the log is emptied into the file, and its length from which a commit does so itself."""
_BUSY_SECONDS, _MOST_BUSY = 5.0, 65_536
"""How long to wait for a process that writes or for room on the disk, and then before the next try; how many answers
may wait meanwhile: further ones are not kept."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""What SQLite says of a file that is no database, or not ours: SQLITE_ERROR is a table that is missing."""
_ROWS = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT})
"""What it says of a value that it cannot hold."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What an answer cache holds, how often it knew an answer, or not, and its failures, since it was opened."""

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    failures: int
    """How often the file could not be opened, read or written."""


class AnswerCache:
    """A map from prompt key to the model's text. Thread-safe; several processes may share a file.

    An answer is committed within milliseconds, so that killing the process loses none that is older (a power cut may
    lose the last few). Beyond `max_bytes` the answers not used for the longest are forgotten, a few with each commit.
    `path` None keeps a temporary database that SQLite itself spills to disk.

    No failure is a query's: it is reported in the log and counted. A file that cannot be opened or written, because the
    disk is full or another process holds it, is tried again every few seconds, and answers wait in memory meanwhile. A
    damaged one is set aside, under its name with `damaged` and a number, and another begun. Other processes that have
    it open go over to that one with their next commit.
    """

    def __init__(self, path: Path | None, max_bytes: int = 4 << 30) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        """Guards everything below."""
        self._waiting: dict[bytes, str] = {}
        self._used: set[bytes] = set()
        """Answers read that are old enough to be forgotten soon."""
        self._old = 0
        """The first id that is not old."""
        self._committed = self._retry = time.monotonic()
        """Of the last commit, and before which there is to be none."""
        self._hits = self._misses = self._failures = 0
        self._counted = (-math.inf, 0, 0)
        """When the entries and their bytes were counted last, and these."""
        self._told = set[str]()
        """What the log was told once."""
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        """Of the file that is open."""
        self._reopen()
        self._make_room(0)
        self._some, self._closed = threading.Event(), threading.Event()
        """Set while answers wait that nobody else may commit in time."""
        self._written = threading.Event()
        """Set after a commit."""
        work = (self._commit_late, self._move) if self._path is not None else ()
        self._threads = [threading.Thread(target=one, name="answer-cache", daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def _reopen(self) -> None:
        """Open the database if it is not; one that is damaged is set aside first. The caller holds the lock."""
        again = self._database is None
        while again:
            try:
                if self._path is not None and not self._path.parent.is_dir():
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                self._database = _connect("" if self._path is None else str(self._path))
                self._inode = 0 if self._path is None else self._path.stat().st_ino
                again = False
            except (OSError, sqlite3.Error) as error:
                again = self._is_set_aside(error)

    def _leave_moved(self) -> bool:
        """Close a file that another process has renamed or removed, and tell so. The caller holds the lock."""
        if self._path is None or self._database is None:
            return False
        try:
            if self._path.stat().st_ino == self._inode:
                return False
        except FileNotFoundError:
            pass
        except OSError:  # it cannot be seen now
            return False
        with suppress(sqlite3.Error):
            self._database.close()
        self._database = None
        return True

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""
        found: dict[bytes, str] = {}
        with self._lock:
            for start in range(0, len(keys), _LOOKUP):
                for id_, key, text in self._read(keys[start : start + _LOOKUP]):
                    found[key] = text
                    if id_ < self._old:
                        self._used.add(key)
            if self._waiting:
                found.update((k, self._waiting[k]) for k in keys if k in self._waiting)
            self._hits += len(found)
            self._misses += max(0, len(keys) - len(found))
        return found

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys` as if nobody had asked: for a prediction."""
        with self._lock:
            parts = (keys[start : start + _LOOKUP] for start in range(0, len(keys), _LOOKUP))
            found = {key: text for part in parts for _, key, text in self._read(part)}
            found.update((k, self._waiting[k]) for k in keys if k in self._waiting)
        return found

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer; it is on disk soon, or after the next `flush`."""
        with self._lock:
            self._waiting[key] = text
            if self._due():
                self._commit()
            elif len(self._waiting) == 1:
                self._some.set()

    def _due(self) -> bool:
        """Tell whether what waits is to be committed now. The caller holds the lock."""
        count = len(self._waiting)
        if self._path is None or count >= _MOST_WAITING:
            return count >= _MOST_WAITING
        return time.monotonic() - self._committed >= (_WAIT_SECONDS if count < _FAST else _FAST_SECONDS)

    def flush(self) -> None:
        """Commit what waits, before rows with these answers go out."""
        if not self._waiting and not self._used:
            return
        with self._lock:
            self._commit()

    def clear(self) -> int:
        """Forget every answer, give their disk space back, and return how many there were.

        Raises:
            InternalError: they cannot be removed now, and stay.
        """
        with self._lock:
            self._commit()
            self._waiting.clear()
            self._counted = (-math.inf, 0, 0)
            database, failures = self._database, self._failures
            gone = self._write([("DELETE FROM answers", [()])])
            if self._failures != failures and self._database is database:  # another one, after damage, is empty
                raise InternalError(
                    "the answers cannot be removed now, so they stay: the disk is full or fails, or another process"
                    " holds the file; the server's log says which"
                )
            if self._database is not None:
                with suppress(sqlite3.Error):  # the space is taken back as soon as no other process reads
                    self._database.execute("VACUUM")
                    self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return gone

    def stats(self, most_age: float = 0.0) -> CacheStats:
        """Count what there is; takes a moment for millions of answers, and holds nobody up.

        Entries and bytes may be those of up to `most_age` seconds ago.
        """
        now, found = time.monotonic(), self._counted
        if now - found[0] >= most_age:
            found = self._counted = (now, *self._kept())
        _, entries, size = found
        return CacheStats(entries, size, self._max_bytes, self._hits, self._misses, self._failures)

    def _kept(self) -> tuple[int, int]:
        """Return how many answers are kept, and their bytes."""
        with self._lock:
            self._commit()
            size, entries = self._used_bytes(), 0
            if self._path is None and self._database is not None:
                entries = _count(self._database)
        if self._path is not None and self._path.exists():
            with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database:
                entries = _count(database)
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
        """Commit the answers after which none came for a while: the last of a burst."""
        while not self._closed.is_set():
            self._some.wait()
            self._some.clear()
            while self._waiting and not self._closed.is_set():
                self._closed.wait(max(_WAIT_SECONDS, min(self._retry - time.monotonic(), _FAST_SECONDS * 10)))
                with self._lock:
                    if self._due():
                        self._commit()

    def _move(self) -> None:
        """Move what is committed from SQLite's log to its place in the file.

        That waits for the disk, here on a connection of its own, so that no query has to.
        """
        while not self._closed.is_set():
            self._written.wait()
            self._written.clear()
            with suppress(sqlite3.Error), closing(sqlite3.connect(self._path or "", timeout=_BUSY_SECONDS)) as database:
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._closed.wait(_MOVE_SECONDS)

    def _commit(self) -> None:
        """Commit what waits, and make room for it. The caller holds the lock."""
        now = time.monotonic()
        if now < self._retry or not (self._waiting or self._used):
            return
        self._committed = now
        self._leave_moved()
        self._reopen()
        statements = [(_INSERT, self._waiting.items()), (_TOUCH, [(key,) for key in self._used])]
        database = self._database
        written = self._write(statements)
        if self._database is not database:  # damaged, and what waits is not in the one that took its place
            written = self._write(statements)
        self._written.set()
        if now >= self._retry or len(self._waiting) > _MOST_BUSY:
            self._waiting.clear()
            self._used.clear()
            self._make_room(2 * written + 16)

    def _read(self, keys: Sequence[bytes]) -> list[tuple[int, bytes, str]]:
        if self._database is None:
            return []
        marks = ",".join("?" * len(keys))
        try:
            found = self._database.execute(f"{_SELECT} ({marks})", keys).fetchall()
        except sqlite3.Error as error:
            self._fail(error)
            return []
        return [(id_, key, text) for id_, key, raw in found if (text := self._text(raw)) is not None]

    def _text(self, raw: bytes) -> str | None:
        """Return an answer as it was kept, None for one that is damaged: it is bought again, which replaces it."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self._bad("answer in the cache damaged, it is asked again", error)
            return None

    def _bad(self, event: str, error: Exception) -> None:
        """Count a failure of one row; the log has the first one of each kind. The caller holds the lock."""
        self._failures += 1
        if event not in self._told:
            self._told.add(event)
            _log.warning(event, error_type=type(error).__name__, told="once")

    def _write(self, statements: Sequence[tuple[str, Iterable[tuple[object, ...]]]]) -> int:
        """Run statements in one transaction; return the number of rows changed, 0 where it failed."""
        if self._database is None:
            return 0
        try:
            with self._database:
                return sum(max(0, self._database.executemany(*statement).rowcount) for statement in statements)
        except Exception as error:  # values are refused with errors of many types
            if not _is_of_a_row(error):
                if not isinstance(error, sqlite3.Error):
                    raise
                self._fail(error)
                return 0
        return self._write_fit(statements)

    def _write_fit(self, statements: Sequence[tuple[str, Iterable[tuple[object, ...]]]]) -> int:
        """Do the same row by row, without the rows that SQLite cannot hold: those are dropped. Counts as one write."""
        if self._database is None:
            return 0
        changed = 0
        try:
            with self._database:
                for statement, rows in statements:
                    for row in rows:
                        changed += max(0, self._write_row(statement, row))
        except sqlite3.Error as error:
            self._fail(error)
            return 0
        return changed

    def _write_row(self, statement: str, row: tuple[object, ...]) -> int:
        """Run a statement on one row; one that is dropped changes 0 rows."""
        if self._database is None:
            return 0
        try:
            return self._database.execute(statement, row).rowcount
        except Exception as error:
            if not _is_of_a_row(error):
                raise
            self._bad("answer cannot be kept, it is dropped", error)
            return 0

    def _make_room(self, most: int) -> None:
        """Forget up to `most` answers that were not used for long if all take more than `max_bytes`.

        SQLite reuses their pages. From half of the size on, answers of the older half that are used count as new.
        """
        size = self._used_bytes()
        if size > self._max_bytes:
            oldest = "SELECT id FROM answers ORDER BY id LIMIT ?"
            self._write([(f"DELETE FROM answers WHERE id IN ({oldest})", [(most,)])])
        self._old = 0
        if 2 * size > self._max_bytes and self._database is not None:
            with suppress(sqlite3.Error, TypeError):  # TypeError: there is no answer
                self._old = self._database.execute(_MIDDLE).fetchone()[0] // 2

    def _used_bytes(self) -> int:
        if self._database is None:
            return 0
        try:
            pages, free, size = (
                _pragma(self._database, name) for name in ("page_count", "freelist_count", "page_size")
            )
        except sqlite3.Error as error:
            self._fail(error)
            return 0
        return (pages - free) * size

    def _fail(self, error: sqlite3.Error) -> None:
        """Go on after a failure of the open database. The caller holds the lock."""
        if self._is_set_aside(error):
            self._reopen()

    def _is_set_aside(self, error: OSError | sqlite3.Error) -> bool:
        """Set a damaged file aside and tell so; after any other failure there is to be another try in a while."""
        self._failures += 1
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # the rest of the code says why
        if code not in _DAMAGED or self._path is None or not self._path.exists():
            _log.warning("answer cache fails, answers wait", error=str(error), waiting=len(self._waiting))
            self._retry = time.monotonic() + _BUSY_SECONDS
            if code == sqlite3.SQLITE_READONLY and self._path is not None and self._database is not None:
                self._database.close()  # SQLite only reads a file that it once could not open for writing
                self._database = None
            return False
        if self._leave_moved():
            return True
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        try:
            aside = _set_aside(self._path)
        except OSError as failed:
            _log.warning("answer cache damaged, answers wait", error=str(failed))
            self._retry = time.monotonic() + _BUSY_SECONDS
            return False
        _log.warning("answer cache damaged, another is begun", error=str(error), set_aside=str(aside))
        return True


def _is_of_a_row(error: Exception) -> bool:
    """Tell whether it is a value that SQLite refuses, and not the file that fails.

    A value that cannot be bound has no code of SQLite's own.
    """
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, ValueError | OverflowError | TypeError)
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError | sqlite3.DataError) or code in _ROWS


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, timeout=_BUSY_SECONDS)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(f"PRAGMA wal_autocheckpoint = {_MOST_PAGES}")
    database.execute(_SCHEMA)
    return database


def _set_aside(path: Path) -> Path:
    """Rename a database and its log; return the new name, one that nothing has yet."""
    aside = next(name for n in count(1) if not (name := path.with_name(f"{path.name}.damaged-{n}")).exists())
    path.replace(aside)
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).replace(aside.with_name(aside.name + end))
    return aside


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _count(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT count(*) FROM answers").fetchone()[0])


class Keys:
    """Make one call site's cache keys from model revision, parameters, instruction, and named values in any order.

    Values that agree after the call's `normalize` have the same key.
    """

    def __init__(self, call: AICall, revision: str) -> None:
        site: tuple[object, ...] = (revision, call.model, call.parameters, call.function, call.instruction)
        self._normalize = call.normalize
        if call.normalize:
            site = (*site, sorted(call.normalize))
        if call.numeric:
            site = (*site, str(call.output))
        if call.reading:
            site = (*site, call.reading)
        self._site = hashlib.blake2b(repr(site).encode(), digest_size=16).digest()

    def key(self, fields: Iterable[tuple[str, str]]) -> bytes:
        """Return the key of one prompt; the order of `fields` does not count, since it means nothing to the model."""
        digest = hashlib.blake2b(self._site, digest_size=16)
        if self._normalize:
            fields = [(name, normalised(value, self._normalize)) for name, value in fields]
        for name, value in sorted(fields):
            digest.update(f"{name}\0{len(value)}\0{value}".encode())
        return digest.digest()
