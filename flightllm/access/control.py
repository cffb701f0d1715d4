"""Access control of one server: users, their present rights, and the statements that change rights."""

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import lru_cache

from flightllm.access.claims import JwtClaims
from flightllm.access.file import WAYS_OUT
from flightllm.access.ledger import Ledger
from flightllm.access.login import Login
from flightllm.access.rights import READING, Rights
from flightllm.access.store import AccessSnapshot, AccessStore
from flightllm.common.principal import LOCAL, ROLES, Principal
from flightllm.config import Config
from flightllm.errors import ConfigError, InvalidInputError, NotFoundError
from flightllm.sql.grants import PRIVILEGES, AccessPolicy, Grant
from flightllm.sql.statement import Statement

_KEPT_RIGHTS = 1_024
"""The number of principals whose rights are kept. With an identity provider, any number of principals can sign in."""


def open_access(config: Config) -> "AccessControl":
    """Open the users and rights of a server.

    Raises:
        ConfigError: the server's token or the key set cannot be read; or the users' file is damaged, or is missing
            although there was one.
        MissingExtraError: `[auth] jwks` without the extra `jwt`.
    """
    store = AccessStore(config.data_folder / "access.sqlite")
    try:
        store.snapshot()  # a server that cannot read rights must not start
    except BaseException:
        store.close()
        raise
    claims = JwtClaims(config.auth) if config.auth.jwks else None
    return AccessControl(store, Login(store, config.auth, config.server.read_token(), claims))


class AccessControl:
    """The users of a server and their rights. Safe to use from several threads."""

    def __init__(self, store: AccessStore, login: Login) -> None:
        self.store = store
        self.login = login
        self._lock = threading.Lock()
        self._ledgers: dict[str, Ledger] = {}
        self._rights = self._reader_of(AccessSnapshot())

    def tidy(self, owners: Collection[str]) -> None:
        """Add what the file lacks: checksums, and the names of owners without an account."""
        self.store.seal()
        for owner in sorted(_users(owners) - set(self.store.snapshot().users)):  # after a start without the old users
            with suppress(ConfigError):  # the folder can be read-only
                self.store.note(owner)

    def rights(self, principal: Principal) -> Rights:
        """Return a principal's present rights.

        Raises:
            UnauthenticatedError: the principal is no longer a user.
        """
        snapshot = self.store.snapshot()
        kept, read = self._rights
        if kept is not snapshot:
            self._rights = _, read = self._reader_of(snapshot)
        return read(principal)

    def _reader_of(self, snapshot: AccessSnapshot) -> tuple[AccessSnapshot, Callable[[Principal], Rights]]:
        """Return a snapshot, and a reader of rights in it that keeps those of the latest principals."""

        @lru_cache(_KEPT_RIGHTS)
        def read(principal: Principal) -> Rights:
            return Rights.of(self.login.current(principal, snapshot), snapshot)

        return snapshot, read

    def ledger(self, principal: Principal) -> Ledger | None:
        """Return a user's ledger of spending; None on a server without users."""
        if principal == LOCAL:
            return None
        with self._lock:
            ledger = self._ledgers.setdefault(principal.name, Ledger(self.store, principal.name))
        ledger.look()
        return ledger

    def change(self, statement: Statement) -> int:
        """Run a checked GRANT, REVOKE, or CREATE or DROP of a row filter or column mask; return -1.

        Raises:
            NotFoundError: there is no such grantee, or nothing to remove.
            InvalidInputError: the filter or mask exists, and OR REPLACE was not written.
        """
        match statement.kind:
            case "grant":
                for grantee in dict.fromkeys(grant.grantee for grant in statement.grants):
                    self._check_grantee(grantee)
                    self._check_useful([grant for grant in statement.grants if grant.grantee == grantee])
                self.store.grant(list(statement.grants))
            case "revoke":
                if not self.store.revoke(list(statement.grants)):
                    grant = statement.grants[0]
                    raise NotFoundError(
                        f"{grant.grantee!r} has no such privilege on {grant.object!r}: see system.grants"
                    )
            case "create_policy" if statement.policy is not None:
                self._check_grantee(statement.policy.grantee)
                if self._has(statement.policy) and not statement.or_replace:
                    raise InvalidInputError(
                        "this table has such a filter or mask for this user already: write CREATE OR REPLACE"
                    )
                self.store.set_policy(statement.policy)
            case "drop_policy" if statement.policy is not None:
                if not self.store.drop_policy(statement.policy):
                    raise NotFoundError("there is no such row filter or column mask: see system.policies")
        return -1

    def _has(self, policy: AccessPolicy) -> bool:
        key = (policy.grantee, policy.target, policy.column)
        return any((p.grantee, p.target, p.column) == key for p in self.store.snapshot().policies)

    def _check_grantee(self, name: str) -> None:
        """Check that a user, group or role exists; with an identity provider, unknown names can be its groups."""
        snapshot = self.store.snapshot()
        groups = frozenset[str]().union(*(user.groups for user in snapshot.users.values()))
        if name not in {*snapshot.users, *groups, *ROLES} and not self.login.takes_others:
            known = ", ".join([*ROLES, *sorted({*snapshot.users, *groups})])
            raise NotFoundError(f"there is no user, group or role {name!r}; there are: {known}")

    def _check_useful(self, grants: Sequence[Grant]) -> None:
        """Refuse to grant a readonly user a privilege that its role excludes; ALL grants those that it can have."""
        user = self.store.snapshot().users.get(grants[0].grantee)
        named = [grant.privilege for grant in grants if grant.privilege not in READING]
        if user is not None and user.role == "readonly" and named and len(grants) < len(PRIVILEGES[grants[0].kind]):
            raise InvalidInputError(
                f"{user.name!r} has the role readonly, which cannot {named[0]}: change the role by `flightllm user set"
                f" {user.name} --role user`, or grant only {' and '.join(READING)}"
            )

    def close(self) -> None:
        """Write the spending to disk, and close the file of users. Idempotent."""
        self.write()
        self.store.close()

    def write(self) -> None:
        """Write the spending to disk."""
        with self._lock:
            ledgers = list(self._ledgers.values())
        for ledger in ledgers:
            ledger.write()


def check_owners(store: AccessStore, owners: Collection[str]) -> None:
    """Check that the file of the users is there if users own something.

    Raises:
        ConfigError: users own something, but the file is missing.
    """
    others = _users(owners)
    if others and store.signing_key() is None:
        raise ConfigError(
            f"{min(others)!r} owns tables, models or prompts, but the user database access.sqlite is missing from the"
            f" data folder: {WAYS_OUT}"
        )


def _users(owners: Collection[str]) -> set[str]:
    return {owner for owner in owners if owner not in {"", LOCAL.name}}
