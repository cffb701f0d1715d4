"""Keep answers by what was asked, in SQLite: an answer is bought once, also across queries and restarts."""

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import structlog

from flightllm.ai import AICall

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID
"""
_LOOKUP = 500
_FLUSH = 256

_log = structlog.get_logger(__name__)


class AnswerCache:
    """A map from prompt key to the model's text. Thread-safe; writes are collected and committed in groups.

    `path` None keeps a temporary database that SQLite itself spills to disk. One that cannot be opened or written is
    reported in the log, and the cache goes on without it: answers are then bought again.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[bytes, str] = {}
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
        """Remember an answer; it is on disk after the next `flush`, which comes by itself every few hundred answers."""
        with self._lock:
            self._waiting[key] = text
            full = len(self._waiting) >= _FLUSH
        if full:
            self.flush()

    def flush(self) -> None:
        """Commit what waits."""
        with self._lock:
            if self._waiting:
                self._write("INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)", self._waiting.items())
                self._waiting.clear()

    def clear(self) -> int:
        """Forget everything; return how many answers there were."""
        with self._lock:
            self._waiting.clear()
            (n,) = self._database.execute("SELECT count(*) FROM answers").fetchone()
            self._write("DELETE FROM answers", [()])
            return int(n)

    def close(self) -> None:
        """Commit and close. Idempotent."""
        self.flush()
        with self._lock:
            self._database.close()
            self._database = _connect("")

    def _read(self, sql: str, values: Sequence[bytes]) -> Mapping[bytes, str]:
        try:
            return dict(self._database.execute(sql, values).fetchall())
        except sqlite3.Error as error:
            self._degrade(error)
            return {}

    def _write(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        try:
            with self._database:
                self._database.executemany(sql, rows)
        except sqlite3.Error as error:
            self._degrade(error)

    def _degrade(self, error: sqlite3.Error) -> None:
        _log.warning("answer cache failed, answers are kept for this run only", error=str(error))
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
