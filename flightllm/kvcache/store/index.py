"""The index of a KV store in SQLite: a bitstream belongs to the store exactly while its row is committed."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import structlog

from flightllm.common.atomic_files import set_database_aside

_SCHEMA = """
CREATE TABLE IF NOT EXISTS chunks (
    key TEXT, codec TEXT, file TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, checksums BLOB NOT NULL,
    used INTEGER NOT NULL, PRIMARY KEY (key, codec));
CREATE INDEX IF NOT EXISTS by_last_use ON chunks (used);
"""
_COLUMNS = "key, codec, file, size, checksums"
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""SQLite's codes for a file that is not a database, or not ours; SQLITE_ERROR is a table of another shape.

These are the lower bytes of the codes; the upper bytes hold details.
"""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredBitstream:
    """One bitstream: its chunk's key, codec, file and size in bytes, and the concatenated checksums of its parts."""

    key: str
    codec: str
    file: str
    size: int
    checksums: bytes


class Index:
    """The file of the index, for one thread at a time. All methods raise `sqlite3.Error` if it is not usable.

    Changes are not synced to disk one by one: killing the process loses nothing, a power cut loses at most the last
    changes. A new file replaces a damaged one, which stays as `index.sqlite.damaged-1`.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._database = _opened(path)
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF) not in _DAMAGED:
                raise
            aside = set_database_aside(path)
            _log.warning(
                "the index of KV chunks is damaged, starting with an empty one",
                error=str(error), set_aside=aside.name if aside else None,
            )  # fmt: skip
            self._database = _opened(path)
        self.bytes = self._one("SELECT coalesce(sum(size), 0) FROM chunks")[0]

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()

    def find(self, key: str, codec: str) -> StoredBitstream | None:
        """Return a bitstream's entry, or None if it is not held."""
        query = f"SELECT {_COLUMNS} FROM chunks WHERE key = ? AND codec = ?"
        row = self._database.execute(query, (key, codec)).fetchone()
        return None if row is None else StoredBitstream(*row)

    def touch(self, key: str, mark: int) -> None:
        """Record the mark of a chunk's last use; on a full disk the order stays unchanged."""
        with suppress(sqlite3.Error):
            self._database.execute("UPDATE chunks SET used = ? WHERE key = ?", (mark, key))

    def change(self, gone: Sequence[StoredBitstream], new: StoredBitstream | None = None, mark: int = 0) -> None:
        """Remove some bitstreams and add one with the mark of its last use, in one transaction."""
        database, held = self._database, self.bytes
        database.execute("BEGIN IMMEDIATE")
        try:
            for entry in gone:
                held -= entry.size * database.execute("DELETE FROM chunks WHERE file = ?", (entry.file,)).rowcount
            if new is not None:
                database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)", (*astuple(new), mark))
                held += new.size
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite rolls back some failures itself
                database.execute("ROLLBACK")
            raise
        self.bytes = held

    def sizes(self, keys: Sequence[str]) -> list[dict[str, int]]:
        """Return for each chunk the sizes in bytes of its bitstreams by codec name, with one query."""
        query = "SELECT key, codec, size FROM chunks WHERE key IN (SELECT value FROM json_each(?)) ORDER BY codec"
        found: dict[str, dict[str, int]] = {}
        for key, codec, size in self._database.execute(query, (json.dumps(list(keys)),)):
            found.setdefault(key, {})[codec] = size
        return [dict(found.get(key, {})) for key in keys]

    def of_keys(self, keys: Sequence[str]) -> list[StoredBitstream]:
        """Return all entries of some chunks."""
        query = f"SELECT {_COLUMNS} FROM chunks WHERE key IN (SELECT value FROM json_each(?))"
        return [StoredBitstream(*row) for row in self._database.execute(query, (json.dumps(list(keys)),))]

    def all(self) -> list[StoredBitstream]:
        """Return all entries."""
        return [StoredBitstream(*row) for row in self._database.execute(f"SELECT {_COLUMNS} FROM chunks")]

    def marks(self) -> list[tuple[str, int]]:
        """Return the keys of all chunks with the marks of their last uses, the lowest mark first."""
        query = "SELECT key, max(used) FROM chunks GROUP BY key ORDER BY max(used)"
        return [(str(key), int(mark)) for key, mark in self._database.execute(query)]

    def chunks(self) -> int:
        """Return the number of chunks with at least one bitstream."""
        return int(self._one("SELECT count(DISTINCT key) FROM chunks")[0])

    def by_codec(self) -> dict[str, tuple[int, int]]:
        """Return the number of bitstreams of each codec, and their bytes."""
        query = "SELECT codec, count(*), sum(size) FROM chunks GROUP BY codec ORDER BY codec"
        return {codec: (count, size) for codec, count, size in self._database.execute(query)}

    def _one(self, query: str) -> tuple[int, ...]:
        row: tuple[int, ...] = self._database.execute(query).fetchone()
        return row


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_SCHEMA)
        database.execute(f"SELECT {_COLUMNS}, used FROM chunks LIMIT 1").fetchone()
        _check(database)
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if a page is damaged."""
    found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
