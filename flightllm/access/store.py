"""Users, tokens, grants and policies in SQLite in the data folder: the server reads, the command line writes."""

import json
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from flightllm.access.file import (
    AccessFile,
    add_checksums,
    at_one_moment,
    check,
    create,
    damaged,
    seal,
    stored_checksum,
    usable,
)
from flightllm.access.passwords import hash_password, hash_token, new_token
from flightllm.access.scram import ScramVerifier
from flightllm.common.names import TableName
from flightllm.common.principal import LOCAL, ROLES, Principal, Role
from flightllm.errors import ConfigError, InvalidInputError, NotFoundError
from flightllm.sql.expanding import expanded
from flightllm.sql.grants import AccessPolicy, Grant, ObjectKind
from flightllm.sql.tokens import tokenize

_SIGNING_KEY, _CLOSED = "signing key", "closed"
_SCRAM = "scram "
"""With a user's name after it, the name of the secret that holds the verifier of the user's password."""
DEFAULT_MODEL = "default"
"""The name of the server's configured model in grants; everybody can use it until that is revoked."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a user's spending on AI calls in a day (UTC), or of one query's. None means no limit."""

    calls: int | None = None
    tokens: int | None = None
    """The tokens of prompts, cached or not, and of answers."""
    cost: float | None = None

    def exceeded(self, calls: int, tokens: int, cost: float) -> tuple[str, float, float] | None:
        """Return the first limit that these figures exceed (name, figure, limit), or None."""
        for name, value in (("calls", calls), ("tokens", tokens), ("cost", cost)):
            most = getattr(self, name)
            if most is not None and value > most:
                return name, value, most
        return None


@dataclass(frozen=True, slots=True)
class User:
    """One user. Without a password it logs in by tokens or certificate, or by JWT if it is `linked`."""

    name: str
    role: Role
    groups: frozenset[str] = frozenset()
    tenant: str = ""
    password: str | None = None
    """The password's Argon2 hash."""
    allowance: Allowance = Allowance()
    linked: bool = False
    """Whether an identity provider's user of this name is this user; if not, a login as that user is refused."""

    @property
    def principal(self) -> Principal:
        """Return the user's principal, as sessions use it."""
        return Principal(self.name, self.role, self.groups, self.tenant)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """One API token, without its text."""

    id: str
    user: str
    label: str
    created: datetime
    expires: datetime | None


@dataclass(frozen=True, slots=True)
class AccessSnapshot:
    """The users, tokens, grants and policies of one moment."""

    users: Mapping[str, User] = field(default_factory=lambda: MappingProxyType({}))
    tokens: Mapping[str, ApiToken] = field(default_factory=lambda: MappingProxyType({}))
    """The tokens by hash."""
    grants: frozenset[Grant] = frozenset()
    policies: tuple[AccessPolicy, ...] = ()
    others: frozenset[str] = frozenset()
    """Names of users that this server does not keep: dropped users, and those of an identity provider."""
    departed: frozenset[str] = frozenset()
    """The names of dropped users of this server; objects that they created still exist under these names."""
    verifiers: Mapping[str, ScramVerifier] = field(default_factory=lambda: MappingProxyType({}))
    """For SCRAM, the verifiers of the users' present passwords, by name."""
    closed: bool = False
    """Whether the server ever had a user. From then on it refuses unknown callers, even if no user is left."""


class AccessStore:
    """The file `access.sqlite`, created at the first change. Safe for several threads and processes.

    `path` None keeps everything in memory, for a server whose folder is read-only.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else AccessFile(path)
        self._writing = threading.RLock()
        self._reading: AbstractContextManager[object] = threading.Lock() if path else self._writing
        """Another lock, so that readers wait neither for the disk nor for another process that writes.

        In memory there is one connection, so that readers wait for the writer.
        """
        self._closed = False
        self._writer: sqlite3.Connection | None = None if path else _in_memory()
        self._reader: sqlite3.Connection | None = self._writer
        self._version: tuple[int, int] | None = None
        self._own = 0
        self._checksum = ""
        """The checksum of the snapshot's rows, or empty."""
        self._snapshot = AccessSnapshot()
        self._key: bytes | None = None

    # --- reading

    def snapshot(self) -> AccessSnapshot:
        """Return the present state; cheap where nothing has changed. After `close` it stays the same.

        Raises:
            ConfigError: the file cannot be read, is damaged, or is missing although there was one.
        """
        with self._reading, usable():
            database = self._existing()
            if database is not None:
                version = (int(database.execute("PRAGMA data_version").fetchone()[0]), self._own)
                if version != self._version:
                    at_one_moment(database, lambda: self._read(database))
                    self._version = version
            return self._snapshot

    def _read(self, database: sqlite3.Connection) -> None:
        """Read the snapshot, unless its checksum is the same: spending changes the file at each query."""
        checksum = stored_checksum(database, "rights")
        if checksum and checksum == self._checksum:
            return
        check(database, "rights")
        try:
            self._snapshot, self._checksum = _read(database), checksum
        except (ValueError, TypeError) as error:  # only in a file without checksums
            raise damaged("a row cannot be read") from error

    def signing_key(self) -> bytes | None:
        """Return the secret that signs login tokens, constant for the life of the file; None if there is no file."""
        if self._key is None:
            with self._reading, usable():
                database = self._existing()
                if database is not None:
                    query = "SELECT value FROM secrets WHERE name = ?"
                    self._key = bytes.fromhex(database.execute(query, (_SIGNING_KEY,)).fetchone()[0])
        return self._key

    # --- users and tokens

    def add_user(self, user: User, password: str | None = None, *, again: bool = False) -> None:
        """Add a user. A name that a user had before, here or at an identity provider, needs `again`.

        The new user then owns what the earlier user created.

        Raises:
            InvalidInputError: a user, role or group has the name, or the password is too short.
        """
        with self._writing:
            snapshot = self.snapshot()
            _check_user(user, snapshot)
            groups = frozenset[str]().union(*(other.groups for other in snapshot.users.values()))
            granted = {*(one.grantee for one in snapshot.grants), *(one.grantee for one in snapshot.policies)}
            if user.name in {*snapshot.users, *groups, *granted}:
                raise InvalidInputError(f"the name {user.name!r} is taken by a user or a group: choose another")
            hashed = None if password is None else hash_password(password)
            with self._changing() as database:
                if database.execute("DELETE FROM dropped WHERE name = ?", (user.name,)).rowcount and not again:
                    raise InvalidInputError(
                        f"an earlier user had the name {user.name!r}, and the new user would own their tables, prompts"
                        " and queries: choose another name, or add --again if you mean this"
                    )
                database.execute("DELETE FROM departed WHERE name = ?", (user.name,))
                row = _row(replace(user, password=hashed))
                database.execute("INSERT INTO users VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                _keep_verifier(database, user.name, password, hashed)
                _link(database, user)
                database.execute("INSERT OR IGNORE INTO secrets VALUES (?, '')", (_CLOSED,))

    def change_user(self, user: User, password: str | None = None) -> None:
        """Replace the user of the same name, with a new password if one is given.

        Raises:
            NotFoundError: there is no such user.
        """
        self.user(user.name)
        _check_user(user, self.snapshot())
        kept = user if password is None else replace(user, password=hash_password(password))
        with self._changing() as database:
            database.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _row(kept))
            _keep_verifier(database, kept.name, password, kept.password)
            _link(database, kept)

    def add_verifier(self, user: User, password: str) -> None:
        """Store the verifier of a user's present password, which a server before SCRAM has not stored."""
        if user.name not in self.snapshot().verifiers:
            with self._changing() as database:
                _keep_verifier(database, user.name, password, user.password)

    def user(self, name: str) -> User:
        """Return a user.

        Raises:
            NotFoundError: there is no such user; the message lists the existing users.
        """
        users = self.snapshot().users
        if name not in users:
            raise NotFoundError(f"there is no user {name!r}; there are: {', '.join(sorted(users)) or 'none yet'}")
        return users[name]

    def drop_user(self, name: str) -> None:
        """Remove a user with its tokens and grants; only admins can then use what it created.

        Raises:
            NotFoundError: there is no such user.
        """
        self.user(name)
        of_user = {"tokens": "user", "grants": "grantee", "policies": "grantee", "users": "name", "linked": "name"}
        with self._changing() as database:
            for table, column in of_user.items():
                database.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))
            database.execute("DELETE FROM secrets WHERE name = ?", (_SCRAM + name,))
            for table in ("dropped", "departed"):
                database.execute(f"INSERT OR IGNORE INTO {table} VALUES (?)", (name,))

    def note(self, name: str) -> None:
        """Remember the name of a user whom this server does not keep: the user can own tables under it."""
        if name not in self.snapshot().others:
            self._change("INSERT OR IGNORE INTO dropped VALUES (?)", name)

    def add_token(self, user: str, label: str = "", expires: datetime | None = None) -> str:
        """Make an API token for a user and return its text, which is not stored.

        Raises:
            NotFoundError: there is no such user.
        """
        self.user(user)
        text = new_token()
        row = (secrets.token_hex(4), user, label, hash_token(text), _text(datetime.now(UTC)), _text(expires))
        self._change("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", *row)
        return text

    def drop_token(self, id_: str) -> None:
        """Remove a token by its id.

        Raises:
            NotFoundError: there is no such token.
        """
        if not self._change("DELETE FROM tokens WHERE id = ?", id_):
            raise NotFoundError(f"there is no token {id_!r}: see `flightllm token list`")

    # --- grants and policies

    def grant(self, grants: list[Grant]) -> None:
        """Add grants in one transaction; existing grants stay."""
        with self._changing() as database:
            database.executemany("INSERT OR IGNORE INTO grants VALUES (?, ?, ?, ?, ?)", map(astuple, grants))

    def revoke(self, grants: list[Grant]) -> int:
        """Remove grants in one transaction, and return how many of them existed."""
        where = 'grantee = ? AND privilege = ? AND kind = ? AND "schema" = ? AND name = ?'
        with self._changing() as database:
            return database.executemany(f"DELETE FROM grants WHERE {where}", map(astuple, grants)).rowcount

    def set_policy(self, policy: AccessPolicy) -> None:
        """Store a row filter or column mask, in place of one for the same table, column and grantee."""
        self._change("INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?, ?)", *astuple(policy))

    def drop_policy(self, policy: AccessPolicy) -> bool:
        """Remove a row filter or column mask with any expression; return whether it existed."""
        where = 'grantee = ? AND "schema" = ? AND "table" = ? AND "column" = ?'
        return self._change(f"DELETE FROM policies WHERE {where}", *astuple(policy)[:-1]) > 0

    def forget(self, kind: ObjectKind, objects: Collection[tuple[str, str]]) -> None:
        """Remove all grants on objects in one transaction, so that new objects of their names start without grants.

        Each object is a schema and a name; one of them is empty for schemas, models and prompts.

        A table's filters and masks stay. Otherwise its owner could drop and recreate it to escape the admin's policies.
        """
        if any(one.kind == kind and (one.schema, one.name) in objects for one in self.snapshot().grants):
            with self._changing() as database:
                where = 'kind = ? AND "schema" = ? AND name = ?'
                database.executemany(f"DELETE FROM grants WHERE {where}", [(kind, *one) for one in objects])

    @contextmanager
    def moving(self, old: TableName, new: TableName) -> Iterator[None]:
        """Give the grants, row filters and masks of a table to its new name; the block renames the table.

        Filters and masks hold for the new name before the table has it, and also stay with the old name; see `forget`.
        Grants leave the old name before the block, and come to the new name after it. If the block fails, they are
        gone, because an admin can have revoked some of them meanwhile.

        Raises:
            InvalidInputError: another filter or mask of a grantee holds for the new name, or a filter or mask of
                any table reads the old name.
        """
        now = self.snapshot()
        grants = [one for one in now.grants if (one.kind, one.schema, one.name) == ("TABLE", old.schema, old.name)]
        policies = [replace(one, schema=new.schema, table=new.name) for one in now.policies if one.target == old]
        there = {(one.grantee, one.column): one.expression for one in now.policies if one.target == new}
        if any(there.get((one.grantee, one.column), one.expression) != one.expression for one in policies):
            raise InvalidInputError(
                f"row filters or column masks of an earlier table {new.display!r} differ from those of {old.display!r}:"
                " an admin must drop one of them first"
            )
        if any(old in expanded(tokenize(f"SELECT {one.expression}")).tables for one in now.policies):
            raise InvalidInputError(f"a row filter or column mask reads {old.display!r} by its name: ask an admin")
        if policies:
            with self._changing() as database:
                added = map(astuple, policies)
                database.executemany("INSERT OR IGNORE INTO policies VALUES (?, ?, ?, ?, ?)", added)
        self.forget("TABLE", [(old.schema, old.name)])
        yield
        if grants:
            self.grant([replace(one, schema=new.schema, name=new.name) for one in grants])

    # --- spending

    def spent(self, user: str, day: str) -> tuple[int, int, float]:
        """Return the calls, tokens and cost that a user has spent on a day, written YYYY-MM-DD.

        The next day's spending counts, too: it is there if the clock was set back, which must not renew the budget.
        """
        with self._reading, usable():
            database = self._existing()
            query = (
                "SELECT total(calls), total(tokens), total(cost) FROM spent"
                " WHERE user = ? AND day IN (?, date(?, '+1 day'))"
            )

            def read(database: sqlite3.Connection) -> tuple[float, float, float]:
                check(database, "spent")
                found: tuple[float, float, float] = database.execute(query, (user, day, day)).fetchone()
                return found

            row = at_one_moment(database, lambda: read(database)) if database else (0, 0, 0)
        return int(row[0]), int(row[1]), float(row[2])

    def add_spent(self, user: str, day: str, calls: int, tokens: int, cost: float) -> None:
        """Add to what a user has spent on a day."""
        with self._changing() as database:
            database.execute(
                "INSERT INTO spent VALUES (?, ?, ?, ?, ?) ON CONFLICT (user, day) DO UPDATE SET"
                " calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
                (user, day, calls, tokens, cost),
            )

    def seal(self) -> None:
        """Add what a file of an older version lacks, unless it cannot be written: checksums, and the file beside it."""
        with self._writing, suppress(ConfigError):
            if self.signing_key() is not None:
                self._for_changes()

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._writing, self._reading:
            self._closed = True
            for database in (self._reader, self._writer):
                if database is not None:
                    database.close()
            self._reader = self._writer = None

    # --- the file

    def _change(self, statement: str, *values: object) -> int:
        with self._changing() as database:
            return database.execute(statement, values).rowcount

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for changes, in one transaction.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._writing, usable():
            database = self._for_changes()
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                seal(database)
                database.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):  # a failed write has rolled back already; the first error says why
                    database.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    self._forget_writer()
                raise
            self._own += 1
            # A damaged log would lose changes, or bring back rights that they took away. So no log stays.
            with suppress(sqlite3.Error):  # another process reads: the next change empties the log
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _forget_writer(self) -> None:
        """Reopen the file at the next change: a connection that once could not write stays read-only.

        After other failures the connection stays. A reopened one would see the rows that a failed COMMIT had written.
        """
        if self._file is not None and self._writer is not None:
            self._writer.close()
            self._writer = None

    def _existing(self) -> sqlite3.Connection | None:
        """Return the connection for reading, or None while there is no file. The caller holds the lock."""
        if self._reader is None and not self._closed and self._file is not None and self._file.exists():
            self._reader = self._file.connect()
        return self._reader

    def _for_changes(self) -> sqlite3.Connection:
        if self._closed:
            raise ConfigError("the user database is closed")
        if self._writer is None and self._file is not None:
            self._file.make()
            self._writer = self._file.connect()
            with suppress(OSError):  # the next start tries again
                self._file.mark()
            add_checksums(self._writer)
        if self._writer is None:
            raise ConfigError("the user database is closed")
        return self._writer


def _in_memory() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    create(database)
    return database


def _read(database: sqlite3.Connection) -> AccessSnapshot:
    linked, others, departed = (_names(database, table) for table in ("linked", "dropped", "departed"))
    users = [
        User(name, role, frozenset(json.loads(groups)), tenant, password, Allowance(*allowance), name in linked)
        for name, role, groups, tenant, password, *allowance in database.execute("SELECT * FROM users")
    ]
    tokens = {
        hash_: ApiToken(id_, user, label, datetime.fromisoformat(created), expires and datetime.fromisoformat(expires))
        for id_, user, label, hash_, created, expires in database.execute("SELECT * FROM tokens")
    }
    policies = database.execute('SELECT * FROM policies ORDER BY "schema", "table", "column", grantee')
    return AccessSnapshot(
        MappingProxyType({user.name: user for user in users}),
        MappingProxyType(tokens),
        frozenset(Grant(*row) for row in database.execute("SELECT * FROM grants")),
        tuple(AccessPolicy(*row) for row in policies),
        others,
        departed,
        MappingProxyType(_verifiers(database, users)),
        database.execute("SELECT 1 FROM secrets WHERE name = ?", (_CLOSED,)).fetchone() is not None,
    )


def _keep_verifier(database: sqlite3.Connection, name: str, password: str | None, hashed: str | None) -> None:
    """Store the verifier of a new password, with the password's hash, because older servers change only the hash."""
    if password is not None and hashed is not None:
        value = f"{hash_token(hashed)} {ScramVerifier.of(password)}"
        database.execute("INSERT OR REPLACE INTO secrets VALUES (?, ?)", (_SCRAM + name, value))


def _verifiers(database: sqlite3.Connection, users: list[User]) -> dict[str, ScramVerifier]:
    """Return the verifiers that belong to the users' present passwords."""
    kept = dict(database.execute("SELECT name, value FROM secrets WHERE name LIKE ?", (f"{_SCRAM}%",)))
    found = {}
    for user in users:
        hashed, _, text = kept.get(_SCRAM + user.name, "").partition(" ")
        verifier = ScramVerifier.read(text)
        if verifier is not None and user.password is not None and hashed == hash_token(user.password):
            found[user.name] = verifier
    return found


def _names(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the names in a table; a file from an older server can lack the table."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is None:
        return frozenset()
    return frozenset(name for (name,) in database.execute(f"SELECT name FROM {table}"))


def _link(database: sqlite3.Connection, user: User) -> None:
    """Store whether an identity provider's user is this user."""
    statement = "INSERT OR IGNORE INTO linked VALUES (?)" if user.linked else "DELETE FROM linked WHERE name = ?"
    database.execute(statement, (user.name,))


def _row(user: User) -> tuple[object, ...]:
    groups = json.dumps(sorted(user.groups))
    return (user.name, user.role, groups, user.tenant, user.password, *astuple(user.allowance))


def _check_user(user: User, snapshot: AccessSnapshot) -> None:
    for name in (user.name, *user.groups):
        if not name or name in (LOCAL.name, *ROLES) or not name.isprintable() or ":" in name:
            taken = ", ".join((LOCAL.name, *ROLES))
            raise InvalidInputError(
                f"{name!r} cannot be a name: write printable characters without ':', and not {taken}"
            )
    if shared := user.groups & {user.name, *snapshot.users}:
        raise InvalidInputError(f"{min(shared)!r} is a user, so it cannot be a group: choose another name")
    if user.role not in ROLES:
        raise InvalidInputError(f"there is no role {user.role!r}; there are: {', '.join(ROLES)}")


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
