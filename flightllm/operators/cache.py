"""Keep answers by what was asked, in SQLite: an answer is bought once, also across queries and restarts."""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from flightllm.ai import AICall

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, text TEXT NOT NULL)
"""
_LOOKUP = 500
_FLUSH_ANSWERS = 256
_FLUSH_SECONDS = 0.2
"""Answers wait no longer than this before they are on disk, while more of them come in."""

_log = structlog.get_logger(__name__)


class AnswerCache:
    """A map from prompt key to the model's text. Thread-safe; writes are collected and committed in groups.

    Beyond `max_bytes` the oldest answers are forgotten.
    `path` None keeps a temporary database that SQLite itself spills to disk. One that cannot be opened or written is
    reported in the log, and the cache goes on without it: answers are then bought again.
    """

    def __init__(self, path: Path | None, max_bytes: int = 4 << 30) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[bytes, str] = {}
        self._flushed = time.monotonic()
        self._database = self._open(path)

    @staticmethod
    def _open(path: Path | None) -> sqlite3.Connection:
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                return _connect(str(path))
            except (OSError, sqlite3.Error) as error:
                _log.warning(
                    "answer cache unusable, answers are kept for this run only", path=str(path), error=str(error)
                )
        return _connect("")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the answers known among `keys`."""
        found: dict[bytes, str] = {}
        with self._lock:
            for start in range(0, len(keys), _LOOKUP):
                part = keys[start : start + _LOOKUP]
                marks = ",".join("?" * len(part))
                sql = f"SELECT key, text FROM answers WHERE key IN ({marks})"
                found.update(self._read(sql, part))
            found.update((k, self._waiting[k]) for k in keys if k in self._waiting)
        return found

    def put(self, key: bytes, text: str) -> None:
        """Remember an answer; it is on disk after the next `flush`, which comes by itself before many wait, or long."""
        with self._lock:
            self._waiting[key] = text
            due = len(self._waiting) >= _FLUSH_ANSWERS or time.monotonic() - self._flushed >= _FLUSH_SECONDS
        if due:
            self.flush()

    def flush(self) -> None:
        """Commit what waits."""
        with self._lock:
            if self._waiting:
                self._write("INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)", self._waiting.items())
                self._waiting.clear()
                self._make_room()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Commit and close. Idempotent."""
        self.flush()
        with self._lock:
            self._database.close()

    def _read(self, sql: str, values: Sequence[bytes]) -> Mapping[bytes, str]:
        try:
            return dict(self._database.execute(sql, values).fetchall())
        except sqlite3.Error as error:
            self._degrade(error)
            return {}

    def _write(self, sql: str, rows: Iterable[tuple[object, ...]]) -> int:
        """Return the number of rows changed."""
        try:
            with self._database:
                return self._database.executemany(sql, rows).rowcount
        except sqlite3.Error as error:
            self._degrade(error)
            return 0

    def _make_room(self) -> None:
        """Forget the oldest answers, a tenth at a time, while they take more than `max_bytes`; SQLite reuses pages."""
        oldest = "SELECT id FROM answers ORDER BY id LIMIT (SELECT count(*) / 10 + 1 FROM answers)"
        while self._used_bytes() > self._max_bytes:
            if not self._write(f"DELETE FROM answers WHERE id IN ({oldest})", [()]):
                return

    def _used_bytes(self) -> int:
        try:
            pages, free, size = (self._pragma(name) for name in ("page_count", "freelist_count", "page_size"))
        except sqlite3.Error as error:
            self._degrade(error)
            return 0
        return (pages - free) * size

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    def _degrade(self, error: sqlite3.Error) -> None:
        _log.warning("answer cache failed, answers are kept for this run only", error=str(error))
        with suppress(sqlite3.Error):
            self._database.close()
        self._database = _connect("")


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, timeout=10)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(_SCHEMA)
    return database


class Keys:
    """Make one call site's cache keys from model revision, parameters, instruction, and named values in any order."""

    def __init__(self, call: AICall, revision: str) -> None:
        site = (revision, call.model, call.parameters, call.function, call.instruction)
        self._site = hashlib.blake2b(repr(site).encode(), digest_size=16).digest()

    def key(self, fields: Iterable[tuple[str, str]]) -> bytes:
        """Return the key of one prompt; the order of `fields` does not count, since it means nothing to the model."""
        digest = hashlib.blake2b(self._site, digest_size=16)
        for name, value in sorted(fields):
            digest.update(f"{name}\0{len(value)}\0{value}".encode())
        return digest.digest()
