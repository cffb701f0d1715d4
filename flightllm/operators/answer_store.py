"""The answers known by prompt key: the newest ones wait in memory, the others are in a table of SQLite."""

import math
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

import structlog

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, text TEXT NOT NULL, checksum INTEGER)
"""
"""The table evicts the lowest ids first; an answer of the older half moves to the end when it is used."""
_INSERT = "INSERT OR REPLACE INTO answers (key, text, checksum) VALUES (?, ?, ?)"
_SELECT = "SELECT id, key, CAST(text AS BLOB), checksum FROM answers WHERE key IN"
"""Reads texts as bytes: one text with invalid UTF-8 would fail the whole look-up."""
_TOUCH = "UPDATE answers SET id = (SELECT max(id) + 1 FROM answers) WHERE key = ?"
_MIDDLE = "SELECT (SELECT min(id) FROM answers) + (SELECT max(id) FROM answers)"
"""Two subqueries, because `min` and `max` in one query would read the whole table."""
_LOOKUP = 500
_MOST_PAGES = 16_384
"""Pages of write-ahead log at which a commit does a checkpoint."""
MOST_BUSY = 65_536
"""The most answers that wait while the database fails; the store drops further answers."""
_ROWS = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT})
"""SQLite's error codes for a value that it cannot store."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Size of a store of answers, and its hits, misses and failures since it was opened."""

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    failures: int
    """How often opening, reading or writing the file failed."""


class AnswerStore(ABC):
    """A map from prompt key to the model's text. Thread-safe.

    New answers wait in memory until the store writes them into its database. Above `max_bytes` each write evicts a few
    answers, least recently used first. A failure never fails a query: the store logs and counts it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        """Guards the attributes below."""
        self._waiting: dict[bytes, str] = {}
        self._used: set[bytes] = set()
        """Answers that were read and are old enough to be evicted soon."""
        self._old = 0
        """The lowest id that is not old."""
        self._retry = time.monotonic()
        """The earliest time of the next try after a failure."""
        self._hits = self._misses = self._failures = 0
        self._counted = (-math.inf, 0, 0)
        """The time of the last count, and the entries and bytes that it found."""
        self._logged = set[str]()
        """Events that the log already has, and reports only once."""
        self._database: sqlite3.Connection | None = None

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

    @abstractmethod
    def put(self, key: bytes, text: str) -> None:
        """Remember an answer."""

    @abstractmethod
    def flush(self) -> None:
        """Make waiting answers as safe as they get, before rows with these answers go out."""

    @abstractmethod
    def clear(self) -> int:
        """Delete all answers, give their space back, and return how many there were.

        Raises:
            InternalError: the answers cannot be removed now, and stay.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the database. Idempotent."""

    def stats(self, most_age: float = 0.0) -> CacheStats:
        """Count entries and bytes, which can be up to `most_age` seconds old.

        The count takes a moment for millions of answers. The cache in a file counts without the lock. The temporary
        store holds the lock meanwhile; after a failure it also looks up the answers that still wait.
        """
        now, found = time.monotonic(), self._counted
        if now - found[0] >= most_age:
            found = self._counted = (now, *self._kept())
        _, entries, size = found
        return CacheStats(entries, size, self._max_bytes, self._hits, self._misses, self._failures)

    @abstractmethod
    def _kept(self) -> tuple[int, int]:
        """Return the number of answers in the store, and their bytes."""

    @abstractmethod
    def _open(self) -> None:
        """Open the database if it is not open. The caller holds the lock."""

    @abstractmethod
    def _fail(self, error: sqlite3.Error) -> None:
        """Continue after a failure of the open database. The caller holds the lock."""

    def _write_waiting(self, most: int | None = None) -> bool:
        """Move at most the `most` oldest waiting answers to the database, and evict others. The caller holds the lock.

        After a failure they wait on; the store drops all of them once more than `MOST_BUSY` wait. Return False if there
        was nothing to write, or if it is too early for the next try after a failure.
        """
        now = time.monotonic()
        if now < self._retry or not (self._waiting or self._used):
            return False
        self._open()
        database, answers = self._database, list(islice(self._waiting.items(), most))
        written = self._insert(answers)
        if self._database is not database:  # the file was damaged, and its replacement does not have these answers
            written = self._insert(answers)
        if now < self._retry:
            if len(self._waiting) <= MOST_BUSY:
                return True
            answers = list(self._waiting.items())
        self._take_out(answers)
        self._used.clear()
        self._make_room(2 * written + 16)
        return True

    def _take_out(self, answers: Sequence[tuple[bytes, str]]) -> None:
        """Remove answers from those that wait. The caller holds the lock."""
        if len(answers) == len(self._waiting):
            self._waiting.clear()
        else:
            for key, _ in answers:
                del self._waiting[key]

    def _insert(self, answers: Iterable[tuple[bytes, str]]) -> int:
        """Write answers, and move the used ones to the end; return the number of changed rows, or 0 if it failed."""
        rows = [(key, text, _checksum_of_text(key, text)) for key, text in answers]
        return self._write([(_INSERT, rows), (_TOUCH, [(key,) for key in self._used])])

    def _delete_all(self) -> int:
        return self._write([("DELETE FROM answers", [()])])

    def _all(self, keys: Sequence[bytes]) -> Iterator[tuple[int, bytes, str]]:
        """Read the stored answers of `keys`, some at a time. The caller holds the lock."""
        if self._database is None:
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
        return [(id_, key, text) for id_, key, raw, kept in found if (text := self._text(key, raw, kept)) is not None]

    def _text(self, key: bytes, raw: bytes, checksum: int | None) -> str | None:
        """Return an answer's text, or None for a damaged answer: the next query asks again and replaces it.

        Earlier versions wrote no checksums.
        """
        if checksum is not None and checksum != _checksum(key, raw):
            self._bad("cached answer damaged, the next query asks again", ValueError("the checksum is wrong"))
            return None
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self._bad("cached answer damaged, the next query asks again", error)
            return None

    def _bad(self, event: str, error: Exception) -> None:
        """Count a failure of one row; log the first one of each kind. The caller holds the lock."""
        self._failures += 1
        if event not in self._logged:
            self._logged.add(event)
            _log.warning(event, error_type=type(error).__name__, logged="once")

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


def _is_of_a_row(error: Exception) -> bool:
    """Return whether SQLite refuses a value; otherwise the file fails.

    A value that cannot be bound has no error code of SQLite.
    """
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, ValueError | OverflowError | TypeError)
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError | sqlite3.DataError) or code in _ROWS


def connect(path: str, wait: float) -> sqlite3.Connection:
    """Open a database with the table of answers; a lock of another writer is awaited for `wait` seconds."""
    database = sqlite3.connect(path, check_same_thread=False, timeout=wait)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(f"PRAGMA wal_autocheckpoint = {_MOST_PAGES}")
    database.execute(_SCHEMA)
    if "checksum" not in {row[1] for row in database.execute("PRAGMA table_info(answers)")}:  # of an earlier version
        with suppress(sqlite3.OperationalError):  # another process was quicker
            database.execute("ALTER TABLE answers ADD COLUMN checksum INTEGER")
    return database


def _checksum_of_text(key: bytes, text: str) -> int | None:
    """Return the checksum of an answer, or None for a value that SQLite will refuse."""
    try:
        return _checksum(key, text.encode())
    except (AttributeError, TypeError, UnicodeEncodeError):
        return None


def _checksum(key: bytes, raw: bytes) -> int:
    """Return the checksum of an answer; SQLite does not notice a flipped bit in a row."""
    return crc32(raw, crc32(key))


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def count_answers(database: sqlite3.Connection) -> int:
    """Return the number of answers in a database."""
    return int(database.execute("SELECT count(*) FROM answers").fetchone()[0])
