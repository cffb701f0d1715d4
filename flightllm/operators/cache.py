"""Cache answers by prompt key in SQLite, so that queries and restarts pay for each answer once."""

import hashlib
import math
import sqlite3
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import structlog

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.functions.normalize import normalised

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, text TEXT NOT NULL)
"""
"""The cache evicts the lowest ids first; an answer of the older half moves to the end when it is used."""
_INSERT = "INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)"
_SELECT = "SELECT id, key, CAST(text AS BLOB) FROM answers WHERE key IN"
"""Reads texts as bytes: one text with invalid UTF-8 would fail the whole look-up."""
_TOUCH = "UPDATE answers SET id = (SELECT max(id) + 1 FROM answers) WHERE key = ?"
_MIDDLE = "SELECT (SELECT min(id) FROM answers) + (SELECT max(id) FROM answers)"
"""Two subqueries, because `min` and `max` in one query would read the whole table."""
_LOOKUP = 500
_WAIT_SECONDS, _FAST_SECONDS = 0.002, 0.01
_FAST, _MOST_WAITING = 16, 1_024
"""An answer is on disk after at most 2 ms. Above 8,000 answers a second, it waits for 10 ms or for 1,024 answers."""
_MOST_HELD, _ENTRY_BYTES = 32 << 20, 160
"""The bytes of answers that a temporary cache holds in memory, and those of one answer beside its text."""
_SLICE = 2_000
"""The answers that a temporary cache commits at once: other threads wait for the lock meanwhile."""
PRIVATE_HELD = 4 << 20
"""The bytes of answers that the temporary cache of one query holds in memory."""
_MOVE_SECONDS, _MOST_PAGES = 1.0, 16_384
"""Seconds between two checkpoints of the write-ahead log, and pages of log at which a commit does a checkpoint."""
_BUSY_SECONDS, _MOST_BUSY = 5.0, 65_536
"""Seconds to wait for another writer or for free disk space, and then before the next try. The second number is the
most answers that can wait until then; the cache drops further answers."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""SQLite's error codes for a file that is not a database, or not this one: SQLITE_ERROR is a missing table."""
_ROWS = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT})
"""SQLite's error codes for a value that it cannot store."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Size of an answer cache, and its hits, misses and failures since it was opened."""

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    failures: int
    """How often opening, reading or writing the file failed."""


class AnswerCache:
    """A map from prompt key to the model's text. Thread-safe; several processes can share a file.

    An answer is committed within milliseconds: a killed process loses no older answer, a power cut can lose the last
    few. Above `max_bytes` each commit evicts a few answers, least recently used first.

    With `path` None the cache is temporary: it ends with the process. It holds its newest answers in memory, at most
    `most_held` bytes of them and at most `max_bytes`. Beyond that, the oldest of them go to a temporary database, which
    SQLite spills to disk, and to which `max_bytes` applies again.

    A failure never fails a query: the cache logs and counts it. If the disk is full or another process holds the file,
    the cache tries again every few seconds. Meanwhile answers wait in memory. The cache renames a damaged file by
    adding `damaged` and a number, and begins a new one. Other processes that have the damaged file open switch to the
    new file with their next commit.
    """

    def __init__(self, path: Path | None, max_bytes: int = 4 << 30, most_held: int = _MOST_HELD) -> None:
        self._max_bytes = max_bytes
        self._most_held = min(most_held, max_bytes)
        self._lock = threading.Lock()
        """Guards the attributes below."""
        self._waiting: dict[bytes, str] = {}
        self._waiting_bytes = 0
        """The bytes of the waiting answers; only a temporary cache counts them."""
        self._spilled = False
        """Whether the database has had answers."""
        self._used: set[bytes] = set()
        """Answers that were read and are old enough to be evicted soon."""
        self._old = 0
        """The lowest id that is not old."""
        self._committed = self._retry = time.monotonic()
        """The time of the last commit, and the earliest time of the next try."""
        self._hits = self._misses = self._failures = 0
        self._counted = (-math.inf, 0, 0)
        """The time of the last count, and the entries and bytes that it found."""
        self._told = set[str]()
        """Events that the log already has, and reports only once."""
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        """The inode of the open file."""
        self._reopen()
        self._make_room(0)
        self._some, self._closed = threading.Event(), threading.Event()
        """`_some` is set while answers wait and no other thread is sure to commit them in time."""
        self._written = threading.Event()
        """Set after each commit."""
        self._checkpoint = threading.Lock()
        """Held during a checkpoint: SQLite refuses a second one meanwhile. A thread with `_lock` can wait for it."""
        work = (self._commit_late, self._move) if self._path is not None else ()
        self._threads = [threading.Thread(target=one, name="answer-cache", daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def _reopen(self) -> None:
        """Open the database if it is not open; rename a damaged file first. The caller holds the lock."""
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
        """Close a file that another process renamed or removed; tell whether it did. The caller holds the lock."""
        if self._path is None or self._database is None:
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

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""
        found: dict[bytes, str] = {}
        with self._lock:
            for id_, key, text in self._all(keys):
                found[key] = text
                if id_ < self._old:
                    self._used.add(key)
            if self._waiting:
                found.update((k, self._waiting[k]) for k in keys if k in self._waiting)
            self._hits += len(found)
            self._misses += max(0, len(keys) - len(found))
        return found

    def peek(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys` without counting or marking them: for a prediction."""
        with self._lock:
            found = {key: text for _, key, text in self._all(keys)}
            found.update((k, self._waiting[k]) for k in keys if k in self._waiting)
        return found

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer; it is on disk within milliseconds, or after the next `flush`.

        A temporary cache keeps it in memory, and commits some of its oldest answers once it holds too many bytes.
        """
        with self._lock:
            if self._path is None:
                before = self._waiting.get(key)
                self._waiting_bytes += _held_bytes(text) - (0 if before is None else _held_bytes(before))
            self._waiting[key] = text
            if self._due():
                self._commit(_SLICE if self._path is None else None)
            elif len(self._waiting) == 1:
                self._some.set()

    def _due(self) -> bool:
        """Return whether to commit the waiting answers now. The caller holds the lock."""
        if self._path is None:
            return self._waiting_bytes >= self._most_held
        count = len(self._waiting)
        if count >= _MOST_WAITING:
            return True
        return time.monotonic() - self._committed >= (_WAIT_SECONDS if count < _FAST else _FAST_SECONDS)

    def flush(self) -> None:
        """Commit waiting answers, before rows with these answers go out. A temporary cache has nothing to lose."""
        if self._path is None or not (self._waiting or self._used):
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
            self._waiting_bytes = 0
            self._counted = (-math.inf, 0, 0)
            database, failures = self._database, self._failures
            gone = self._write([("DELETE FROM answers", [()])])
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

    def stats(self, most_age: float = 0.0) -> CacheStats:
        """Count entries and bytes; takes a moment for millions of answers, and blocks no other thread.

        Entries and bytes can be up to `most_age` seconds old.
        """
        now, found = time.monotonic(), self._counted
        if now - found[0] >= most_age:
            found = self._counted = (now, *self._kept())
        _, entries, size = found
        return CacheStats(entries, size, self._max_bytes, self._hits, self._misses, self._failures)

    def _kept(self) -> tuple[int, int]:
        """Return the number of answers in the cache, and their bytes."""
        if self._path is None:
            for _ in range(len(self._waiting) // _SLICE):
                with self._lock:
                    self._commit(_SLICE)
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
                closing(sqlite3.connect(self._path or "", timeout=_BUSY_SECONDS)) as database,
            ):
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._closed.wait(_MOVE_SECONDS)

    def _commit(self, most: int | None = None) -> None:
        """Commit waiting answers, at most the `most` oldest, and evict old ones. The caller holds the lock."""
        now = time.monotonic()
        if now < self._retry or not (self._waiting or self._used):
            return
        self._committed = now
        self._spilled = True
        self._leave_moved()
        self._reopen()
        answers = self._waiting.items() if most is None else list(islice(self._waiting.items(), most))
        statements = [(_INSERT, answers), (_TOUCH, [(key,) for key in self._used])]
        database = self._database
        written = self._write(statements)
        if self._database is not database:  # the file was damaged, and its replacement does not have these answers
            written = self._write(statements)
        self._written.set()
        if now >= self._retry or len(self._waiting) > _MOST_BUSY:
            if now < self._retry or len(answers) == len(self._waiting):
                self._waiting.clear()
                self._waiting_bytes = 0
            else:
                self._waiting_bytes -= sum(_held_bytes(self._waiting.pop(key)) for key, _ in answers)
            self._used.clear()
            self._make_room(2 * written + 16)

    def _all(self, keys: Sequence[bytes]) -> Iterator[tuple[int, bytes, str]]:
        """Read the stored answers of `keys`, some at a time. The caller holds the lock."""
        if self._path is None and not self._spilled:
            return
        for start in range(0, len(keys), _LOOKUP):
            yield from self._read(keys[start : start + _LOOKUP])

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
        """Return an answer's text, or None for a damaged answer: the next query asks again and replaces it."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self._bad("cached answer damaged, the next query asks again", error)
            return None

    def _bad(self, event: str, error: Exception) -> None:
        """Count a failure of one row; log the first one of each kind. The caller holds the lock."""
        self._failures += 1
        if event not in self._told:
            self._told.add(event)
            _log.warning(event, error_type=type(error).__name__, told="once")

    def _write(self, statements: Sequence[tuple[str, Iterable[tuple[object, ...]]]]) -> int:
        """Run statements in one transaction; return the number of changed rows, or 0 if it failed."""
        if self._database is None:
            return 0
        try:
            with self._database:
                return sum(max(0, self._database.executemany(*statement).rowcount) for statement in statements)
        except Exception as error:  # SQLite refuses values with errors of many types
            if not _is_of_a_row(error):
                if not isinstance(error, sqlite3.Error):
                    raise
                self._fail(error)
                return 0
        return self._write_fit(statements)

    def _write_fit(self, statements: Sequence[tuple[str, Iterable[tuple[object, ...]]]]) -> int:
        """Run statements row by row, and drop the rows that SQLite cannot store. Counts as one write."""
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
        """Run a statement on one row and return the number of changed rows; a dropped row counts as 0."""
        if self._database is None:
            return 0
        try:
            return self._database.execute(statement, row).rowcount
        except Exception as error:
            if not _is_of_a_row(error):
                raise
            self._bad("answer not kept, SQLite refuses the value", error)
            return 0

    def _make_room(self, most: int) -> None:
        """Evict up to `most` of the least recently used answers, if all together exceed `max_bytes`.

        SQLite reuses their pages. From half of that size on, a used answer of the older half moves to the end.
        """
        size = self._used_bytes()
        if size > self._max_bytes:
            oldest = "SELECT id FROM answers ORDER BY id LIMIT ?"
            self._write([(f"DELETE FROM answers WHERE id IN ({oldest})", [(most,)])])
        self._old = 0
        if 2 * size > self._max_bytes and self._database is not None:
            with suppress(sqlite3.Error, TypeError):  # TypeError: the table is empty
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
        """Continue after a failure of the open database. The caller holds the lock."""
        if self._is_set_aside(error):
            self._reopen()

    def _is_set_aside(self, error: OSError | sqlite3.Error) -> bool:
        """Rename a damaged file and return True; after any other failure, schedule the next try and return False."""
        self._failures += 1
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # the higher bits say why
        if code not in _DAMAGED or self._path is None or not self._path.exists():
            _log.warning("answer cache fails, answers wait in memory", error=str(error), waiting=len(self._waiting))
            self._retry = time.monotonic() + _BUSY_SECONDS
            if code == sqlite3.SQLITE_READONLY and self._path is not None and self._database is not None:
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
            aside = _set_aside(self._path)
        except OSError as failed:
            _log.warning("answer cache damaged, answers wait in memory", error=str(failed))
            self._retry = time.monotonic() + _BUSY_SECONDS
            return False
        _log.warning("answer cache damaged, a new file replaces it", error=str(error), set_aside=str(aside))
        return True


def _held_bytes(text: str) -> int:
    """Return the bytes that a temporary cache counts for an answer in memory."""
    return sys.getsizeof(text) + _ENTRY_BYTES


def _is_of_a_row(error: Exception) -> bool:
    """Return whether SQLite refuses a value; otherwise the file fails.

    A value that cannot be bound has no error code of SQLite.
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
    """Rename a database and its log; return the new name, which no other file has."""
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


class CacheKeys:
    """Cache keys of one call site: hashes of model revision, parameters, instruction, and named values in any order.

    Values that are equal after the call's `normalize` have the same key.
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
        """Return the key of one prompt; the order of `fields` carries no meaning and does not count."""
        if self._normalize:
            fields = [(name, normalised(value, self._normalize)) for name, value in fields]
        text = "".join([f"{name}\0{len(value)}\0{value}" for name, value in sorted(fields)])
        return hashlib.blake2b(self._site + text.encode(), digest_size=16).digest()
