"""The file of the users: made whole, checked against its own checksums, and never silently missing.

SQLite does not notice a flipped bit inside a row. So the file has checksums of its rows, and triggers that empty a
checksum when rows change. A change by an older version or by hand leaves it empty, and an empty one is not compared.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from flightllm.common.atomic_files import JOURNALS, make_private, set_database_aside, sync
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.storage.lock import FolderLock
from flightllm.storage.made import Mark

_TABLES = """
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, groups TEXT NOT NULL, tenant TEXT NOT NULL, password TEXT,
    daily_calls INTEGER, daily_tokens INTEGER, daily_cost REAL);
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, user TEXT NOT NULL, label TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created TEXT NOT NULL,
    expires TEXT);
CREATE TABLE IF NOT EXISTS grants (
    grantee TEXT, privilege TEXT, kind TEXT, "schema" TEXT, name TEXT,
    PRIMARY KEY (grantee, privilege, kind, "schema", name));
CREATE TABLE IF NOT EXISTS policies (
    grantee TEXT, "schema" TEXT, "table" TEXT, "column" TEXT, expression TEXT NOT NULL,
    PRIMARY KEY (grantee, "schema", "table", "column"));
CREATE TABLE IF NOT EXISTS spent (
    user TEXT, day TEXT, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (user, day));
CREATE TABLE IF NOT EXISTS dropped (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS departed (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS linked (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checksums (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_FIRST = """
INSERT OR IGNORE INTO secrets VALUES ('signing key', lower(hex(randomblob(32))));
INSERT OR IGNORE INTO grants VALUES ('user', 'USAGE', 'MODEL', '', 'default');
INSERT OR IGNORE INTO grants VALUES ('readonly', 'USAGE', 'MODEL', '', 'default');
"""
_RIGHTS = ("users", "tokens", "grants", "policies", "dropped", "departed", "linked", "secrets")
_CHECKED = {
    "rights": {table: f"SELECT * FROM {table}" for table in _RIGHTS},
    # Only the last two days count for budgets, and hashing all days at each change would be slow.
    "spent": {"spent": "SELECT * FROM spent WHERE day >= (SELECT date(max(day), '-1 day') FROM spent)"},
}
"""For each checksum, the tables that it covers and the query for their rows."""
_BUSY_SECONDS = 5.0
_Read = TypeVar("_Read")
_WRITTEN = b"""This data folder has had users, grants, row filters or column masks: they are in access.sqlite.
While this file exists, no server starts without access.sqlite. Restore it from a backup.
`flightllm user add --help` tells how to start without it.
"""
WAYS_OUT = (
    "restore access.sqlite from a backup, or start without its users, grants, row filters and column masks by"
    " `flightllm user add NAME --role admin --reset`"
)


class DamagedUsersError(ConfigError):
    """The file of the users is damaged. After other errors, such as a locked file, it can be whole."""


class AccessFile:
    """The path of `access.sqlite`, and the file `access.made` beside it, which tells that there must be one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = Mark(path.with_suffix(".made"), _WRITTEN)

    def exists(self) -> bool:
        """Return whether there is a file.

        Raises:
            ConfigError: the file is missing, although there was one.
        """
        if self.path.exists():
            return True
        had = self.path.is_symlink() or self._mark.exists()
        if had or any(one.exists() and one.stat().st_size for one in self._journals()):
            raise ConfigError(f"the user database access.sqlite is missing from the data folder: {WAYS_OUT}")
        return False

    def connect(self) -> sqlite3.Connection:
        """Open the file, which must exist, and check it.

        Raises:
            ConfigError: the file cannot be used, or is damaged.
        """
        with usable():
            if not self.path.stat().st_size:  # to SQLite, an empty file is a new database
                raise damaged("it is empty")
            database = _connect(self.path)
            try:
                at_one_moment(database, lambda: check(database, whole=True))
            except BaseException:
                database.close()
                raise
        return database

    def make(self) -> None:
        """Create the file with its first rows, unless it exists; no other process ever sees half of it.

        Raises:
            ConfigError: the file is missing, although there was one.
        """
        if not self.exists():
            self._make()

    def _make(self) -> None:
        make_private(self.path.parent)
        beside = self.path.with_name(f".{self.path.name}-{uuid4().hex}")
        try:
            beside.touch(mode=0o600)
            with closing(sqlite3.connect(beside, isolation_level=None)) as database:
                database.execute("PRAGMA journal_mode = MEMORY")  # a file that is not in use yet needs no journal
                create(database)
            sync(beside)
            with suppress(FileExistsError):  # another process was quicker
                try:
                    os.link(beside, self.path)
                except FileExistsError:
                    raise
                except OSError:  # the filesystem has no hard links
                    self._write_in_place(beside.read_bytes())
            sync(self.path.parent)
        finally:
            beside.unlink(missing_ok=True)

    def _write_in_place(self, content: bytes) -> None:
        """Write the file where nobody else has made one; what a crash leaves is refused as damaged."""
        with open(self.path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                self.path.unlink()
                raise

    def reset(self) -> Path | None:
        """Make a new file in place of a missing or damaged one; return the new name of the damaged one.

        Raises:
            InvalidInputError: the file can be used.
            ConfigError: a server runs on the folder, the folder cannot be written, or the file cannot be read now.
        """
        with usable():
            make_private(self.path.parent)
            with closing(FolderLock(self.path.parent, "users")):
                if self.path.exists():
                    with suppress(DamagedUsersError):
                        self.connect().close()
                        raise InvalidInputError("the user database access.sqlite is not damaged: leave out --reset")
                self.mark()  # first: what a crash leaves must not look like a server without users
                aside = set_database_aside(self.path)
                self._make()
        return aside

    def _journals(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in JOURNALS]

    def mark(self) -> None:
        """Write the file that tells that there must be a file of the users."""
        self._mark.write()


def create(database: sqlite3.Connection) -> None:
    """Create the tables, the signing key and the first grants in one transaction, unless they exist.

    Raises:
        ConfigError: SQLite cannot write them.
    """
    with usable():
        database.executescript(f"BEGIN IMMEDIATE; {_TABLES} {_FIRST} COMMIT;")
        add_checksums(database)


def add_checksums(database: sqlite3.Connection) -> None:
    """Add what a file of an older version lacks: newer tables, checksums and their triggers."""
    triggers = [
        f"CREATE TRIGGER IF NOT EXISTS {table}_{event.lower()} AFTER {event} ON {table} BEGIN"
        f" UPDATE checksums SET value = '' WHERE name = '{name}'; END;"
        for name, tables in _CHECKED.items()
        for table in tables
        for event in ("INSERT", "UPDATE", "DELETE")
    ]
    names = "".join(f"INSERT OR IGNORE INTO checksums VALUES ('{name}', '');" for name in _CHECKED)
    database.executescript(f"BEGIN IMMEDIATE; {_TABLES} {names} {' '.join(triggers)} COMMIT;")
    database.execute("BEGIN IMMEDIATE")
    seal(database)
    database.execute("COMMIT")


def seal(database: sqlite3.Connection) -> None:
    """Compute the checksums that the transaction has emptied. The caller commits."""
    for (name,) in database.execute("SELECT name FROM checksums WHERE value = ''").fetchall():
        if name in _CHECKED:
            database.execute("UPDATE checksums SET value = ? WHERE name = ?", (_checksum(database, name), name))


def at_one_moment(database: sqlite3.Connection, read: Callable[[], _Read]) -> _Read:
    """Call `read` in one transaction, so that no change comes between its queries.

    If it finds damage, call it once more in another transaction.

    Raises:
        DamagedUsersError: both calls found damage.
    """

    def once() -> _Read:
        with usable():
            database.execute("BEGIN")
            try:
                return read()
            finally:
                with suppress(sqlite3.Error):  # the first error says why
                    database.execute("ROLLBACK")

    try:
        return once()
    except DamagedUsersError:
        return once()


def stored_checksum(database: sqlite3.Connection, name: str) -> str:
    """Return a checksum as it is stored; empty if nobody can tell whether the rows changed."""
    try:
        row = database.execute("SELECT value FROM checksums WHERE name = ?", (name,)).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return ""  # written by an older version
    return str(row[0]) if row else ""


def check(database: sqlite3.Connection, *names: str, whole: bool = False) -> None:
    """Compare the rows with these checksums, or with all. With `whole`, check the structure of the file first.

    The caller has begun a transaction: see `at_one_moment`.

    Raises:
        DamagedUsersError: the file is damaged.
    """
    if whole and (found := database.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise damaged(str(found).splitlines()[-1])
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := {"users", "tokens", "grants", "policies", "secrets"} - tables:
        raise damaged(f"the table {min(missing)} is missing")
    if "checksums" not in tables:  # written by an older version
        return
    kept = dict(database.execute("SELECT name, value FROM checksums"))
    for name in names or _CHECKED:
        if name not in kept or (kept[name] and kept[name] != _checksum(database, name)):
            raise damaged(f"the checksum of {name!r} is wrong")


def _checksum(database: sqlite3.Connection, name: str) -> str:
    digest = blake2b(digest_size=16)
    for table, query in _CHECKED[name].items():
        rows = sorted(repr(row) for row in database.execute(query))
        digest.update(f"{table}\n{len(rows)}\n".encode())
        digest.update("\n".join(rows).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def damaged(reason: str) -> DamagedUsersError:
    """Return the error that the file is damaged; the message says what to do."""
    return DamagedUsersError(f"the user database access.sqlite in the data folder is damaged: {reason}; {WAYS_OUT}")


@contextmanager
def usable() -> Iterator[None]:
    """Turn SQLite's errors into ours. Without the users' rights the server must not go on."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or "decode to UTF-8" in str(error):
            raise damaged(str(error).splitlines()[0]) from error
        raise ConfigError(f"the user database access.sqlite in the data folder cannot be used: {error}") from error
    except UnicodeDecodeError as error:  # Python cannot even read SQLite's error, which names a damaged part
        raise damaged("its table of tables cannot be read") from error
    except OSError as error:  # strerror, because the full text names a path
        reason = error.strerror
        raise ConfigError(f"the user database access.sqlite in the data folder cannot be used: {reason}") from error


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database
