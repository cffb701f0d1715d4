"""One principal's rights at one moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flightllm.access.store import AccessSnapshot
from flightllm.common.names import TableName
from flightllm.common.principal import ROLES, Principal
from flightllm.errors import PermissionDeniedError
from flightllm.sql.grants import PRIVILEGES, AccessPolicy, ObjectKind, Privilege, shown_by

READING: tuple[Privilege, ...] = ("SELECT", "USAGE")


@dataclass(frozen=True, slots=True)
class Rights:
    """A principal's grants and policies. An admin has all rights, and no policy applies to an admin."""

    principal: Principal
    grants: frozenset[tuple[Privilege, ObjectKind, str, str]]
    """The grants to the principal's name, groups and role: privilege, kind, schema and name of the object."""
    policies: tuple[AccessPolicy, ...]
    """The policies that apply to the principal."""

    @classmethod
    def of(cls, principal: Principal, snapshot: AccessSnapshot) -> "Rights":
        """Return a principal's rights in a snapshot."""
        if principal.is_admin:
            return cls(principal, frozenset(), ())
        names = principal.grantees
        grants = ((g.privilege, g.kind, g.schema, g.name) for g in snapshot.grants if g.grantee in names)
        return cls(principal, frozenset(grants), tuple(p for p in snapshot.policies if p.grantee in names))

    @property
    def unlimited(self) -> bool:
        """Return whether no right needs to be checked, because the principal is an admin."""
        return self.principal.is_admin

    @property
    def blamed(self) -> str:
        """Return the user to blame if a statement kills the server; '' for admins, whom the server never blocks."""
        return "" if self.unlimited else self.principal.name

    def hold_in(self, now: "Rights", is_there: Callable[[ObjectKind, str, str], bool]) -> bool:
        """Return whether a statement begun under these rights can continue under the principal's present rights `now`.

        Lost rights to dropped objects do not count: `is_there(kind, schema, name)` tells whether an object exists.
        """
        if now.unlimited:
            return True
        if ROLES.index(now.principal.role) > ROLES.index(self.principal.role):
            return False
        lost = (grant for grant in self.grants - now.grants if not now.has(*grant))
        changed = set(self.policies) ^ set(now.policies)
        return not any(is_there(kind, schema, name) for _, kind, schema, name in lost) and not any(
            is_there("TABLE", policy.schema, policy.table) for policy in changed
        )

    def has(self, privilege: Privilege, kind: ObjectKind, schema: str, name: str) -> bool:
        """Return whether a privilege is granted; for a table, a grant on its schema counts, too."""
        by_schema = kind == "TABLE" and (privilege, "SCHEMA", schema, "") in self.grants
        return by_schema or (privilege, kind, schema, name) in self.grants

    def may(self, privilege: Privilege, table: TableName, owner: str | None = None) -> bool:
        """Return whether the principal has a privilege on a table; `owner` is the table's owner."""
        if self.unlimited:
            return True
        if privilege not in READING and self.principal.role == "readonly":
            return False
        if owner == self.principal.name:
            return True
        return self.has(privilege, "TABLE", table.schema, table.name)

    def knows(self, table: TableName, owner: str) -> bool:
        """Return whether the principal has any right to a table, and so can know that it exists."""
        mine = self.unlimited or owner == self.principal.name
        return mine or any(self.has(privilege, "TABLE", table.schema, table.name) for privilege in PRIVILEGES["TABLE"])

    def check(self, privilege: Privilege, table: TableName, owner: str | None = None) -> None:
        """Raise `PermissionDeniedError` if the principal lacks a privilege on a table.

        Call this before reporting a missing table: a user without the privilege must not learn which tables exist.
        """
        if not self.may(privilege, table, owner):
            raise self._denied(privilege, "TABLE", table.display)

    def may_create(self, schema: str) -> bool:
        """Return whether the principal can create tables and views in a schema."""
        return self.may("CREATE", TableName(schema, ""))

    def check_create(self, schema: str) -> None:
        """Raise `PermissionDeniedError` if the principal cannot create tables and views in a schema."""
        if not self.may_create(schema):
            raise self._denied("CREATE", "SCHEMA", schema)

    def may_use(self, kind: ObjectKind, name: str, owner: str | None = None) -> bool:
        """Return whether the principal can use a model, a prompt or a function."""
        return self.unlimited or owner == self.principal.name or ("USAGE", kind, "", name) in self.grants

    def check_usage(self, kind: ObjectKind, name: str, owner: str | None = None) -> None:
        """Raise `PermissionDeniedError` if the principal cannot use a model, a prompt or a function."""
        if not self.may_use(kind, name, owner):
            raise self._denied("USAGE", kind, name)

    def check_change(self, what: str, owner: str | None) -> None:
        """Raise `PermissionDeniedError` unless the principal is an admin or the owner of an object."""
        if not self.unlimited and (owner != self.principal.name or self.principal.role == "readonly"):
            raise PermissionDeniedError(f"{what} can only be changed by its owner or an admin, not by {self._who}")

    def check_admin(self, what: str) -> None:
        """Raise `PermissionDeniedError` unless the principal is an admin; `what` names the refused action."""
        if not self.unlimited:
            raise PermissionDeniedError(
                f"{what} requires the role admin, which {self._who} does not have: ask an admin"
            )

    def check_writer(self, what: str) -> None:
        """Raise `PermissionDeniedError` if the principal is readonly; `what` names the refused action."""
        if self.principal.role == "readonly":
            raise PermissionDeniedError(f"{what} requires the role user or admin, which {self._who} does not have")

    def row_filters(self, table: TableName) -> list[str]:
        """Return the conditions that a table's rows must fulfil for the principal to see them."""
        return [policy.expression for policy in self.policies if policy.target == table and not policy.column]

    def masks(self, table: TableName) -> Mapping[str, str]:
        """Return the masks of a table by column; a user's mask wins over a group's, and a group's over a role's."""
        ranks = {self.principal.role: 2, self.principal.name: 0}
        found = [policy for policy in self.policies if policy.target == table and policy.column]
        found.sort(key=lambda policy: (ranks.get(policy.grantee, 1), policy.grantee), reverse=True)
        return {policy.column: policy.expression for policy in found}

    def is_restricted(self, table: TableName) -> bool:
        """Return whether some rows or values of a table are hidden from the principal."""
        return any(policy.target == table for policy in self.policies)

    @property
    def answers(self) -> str:
        """Return the owner of the cached answers to use: the principal where policies apply, else '' (shared)."""
        return self.principal.name if self.policies else ""

    @property
    def _who(self) -> str:
        return f"{self.principal.name!r} ({self.principal.role})"

    @property
    def _grantee(self) -> str:
        """Return the name to grant a privilege to, so that the principal gets it."""
        principal = self.principal
        return principal.name if principal.known else min(principal.groups, default=principal.role)

    def _denied(self, privilege: str, kind: str, name: str) -> PermissionDeniedError:
        if self.principal.role == "readonly" and privilege not in READING:
            return PermissionDeniedError(
                f"{self._who} can only read: {privilege} on {kind.lower()} {name!r} is refused"
            )
        missing = f", or it does not exist: see {shown_by(kind)};" if privilege in READING else ":"
        return PermissionDeniedError(
            f"{self._who} has no {privilege} on {kind.lower()} {name!r}{missing} an admin can grant it by"
            f" GRANT {privilege} ON {kind} {name} TO {self._grantee}"
        )
