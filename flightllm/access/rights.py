"""What one principal may do and see, as of one moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flightllm.access.store import Snapshot
from flightllm.common.names import TableName
from flightllm.common.principal import ROLES, Principal
from flightllm.errors import PermissionDeniedError
from flightllm.sql.grants import PRIVILEGES, ObjectKind, Policy, Privilege

READING: tuple[Privilege, ...] = ("SELECT", "USAGE")


@dataclass(frozen=True, slots=True)
class Rights:
    """A principal's grants and policies. An admin may everything, and no policy holds for it."""

    principal: Principal
    grants: frozenset[tuple[Privilege, ObjectKind, str, str]]
    """What is granted to it by name, group or role: privilege, kind, schema and name of the object."""
    policies: tuple[Policy, ...]
    """Those that hold for it."""

    @classmethod
    def of(cls, principal: Principal, snapshot: Snapshot) -> "Rights":
        """Return what a snapshot says of a principal."""
        if principal.is_admin:
            return cls(principal, frozenset(), ())
        names = principal.grantees
        grants = ((g.privilege, g.kind, g.schema, g.name) for g in snapshot.grants if g.grantee in names)
        return cls(principal, frozenset(grants), tuple(p for p in snapshot.policies if p.grantee in names))

    @property
    def unlimited(self) -> bool:
        """Tell whether nothing needs to be checked."""
        return self.principal.is_admin

    @property
    def blamed(self) -> str:
        """Return whose statements its are, should the server die of one; admins', '', are never refused altogether."""
        return "" if self.unlimited else self.principal.name

    def hold_in(self, now: "Rights", is_there: Callable[[ObjectKind, str, str], bool]) -> bool:
        """Tell whether what was begun under these rights may go on under those that its principal has now.

        What was dropped with its grants and policies does not count: `is_there` tells of a kind, a schema and a name.
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
        """Tell whether a privilege is granted, on a table by its schema too."""
        by_schema = kind == "TABLE" and (privilege, "SCHEMA", schema, "") in self.grants
        return by_schema or (privilege, kind, schema, name) in self.grants

    def may(self, privilege: Privilege, table: TableName, owner: str | None = None) -> bool:
        """Tell whether a table may be used so; `owner` is who made it."""
        if self.unlimited:
            return True
        if privilege not in READING and self.principal.role == "readonly":
            return False
        if owner == self.principal.name:
            return True
        return self.has(privilege, "TABLE", table.schema, table.name)

    def knows(self, table: TableName, owner: str) -> bool:
        """Tell whether the principal may do anything with a table, and so may know that there is one."""
        mine = self.unlimited or owner == self.principal.name
        return mine or any(self.has(privilege, "TABLE", table.schema, table.name) for privilege in PRIVILEGES["TABLE"])

    def check(self, privilege: Privilege, table: TableName, owner: str | None = None) -> None:
        """Raise `PermissionDeniedError` where a table may not be used so.

        Ask it of a missing table too, before that is said: whoever may not read a table is not told that it exists.
        """
        if not self.may(privilege, table, owner):
            raise self._denied(privilege, "TABLE", table.display)

    def may_create(self, schema: str) -> bool:
        """Tell whether tables and views may be made in a schema."""
        return self.may("CREATE", TableName(schema, ""))

    def check_create(self, schema: str) -> None:
        """Raise `PermissionDeniedError` where no table or view may be made in a schema."""
        if not self.may_create(schema):
            raise self._denied("CREATE", "SCHEMA", schema)

    def may_use(self, kind: ObjectKind, name: str, owner: str | None = None) -> bool:
        """Tell whether a model or prompt may be used."""
        return self.unlimited or owner == self.principal.name or ("USAGE", kind, "", name) in self.grants

    def check_usage(self, kind: ObjectKind, name: str, owner: str | None = None) -> None:
        """Raise `PermissionDeniedError` where a model or prompt may not be used."""
        if not self.may_use(kind, name, owner):
            raise self._denied("USAGE", kind, name)

    def check_change(self, what: str, owner: str | None) -> None:
        """Raise `PermissionDeniedError` unless an admin or the owner asks for a change of an object."""
        if not self.unlimited and (owner != self.principal.name or self.principal.role == "readonly"):
            raise PermissionDeniedError(f"{what} can be changed by its owner or an admin, not by {self._who}")

    def check_admin(self, what: str) -> None:
        """Raise `PermissionDeniedError` unless an admin asks; `what` is what only they may do."""
        if not self.unlimited:
            raise PermissionDeniedError(f"{what} is for admins, and {self._who} is none: ask one of them")

    def check_writer(self, what: str) -> None:
        """Raise `PermissionDeniedError` where a readonly user asks for a change."""
        if self.principal.role == "readonly":
            raise PermissionDeniedError(f"{what} is not for {self._who}")

    def row_filters(self, table: TableName) -> list[str]:
        """Return the conditions that all rows of a table which the principal sees fulfil."""
        return [policy.expression for policy in self.policies if policy.target == table and not policy.column]

    def masks(self, table: TableName) -> Mapping[str, str]:
        """Return what stands for columns of a table; one for the user goes before one for a group, then its role."""
        ranks = {self.principal.role: 2, self.principal.name: 0}
        found = [policy for policy in self.policies if policy.target == table and policy.column]
        found.sort(key=lambda policy: (ranks.get(policy.grantee, 1), policy.grantee), reverse=True)
        return {policy.column: policy.expression for policy in found}

    def is_restricted(self, table: TableName) -> bool:
        """Tell whether the principal sees less of a table than is in it."""
        return any(policy.target == table for policy in self.policies)

    @property
    def answers(self) -> str:
        """Return whose kept answers it may use: its own where a policy holds for it, else those that all share."""
        return self.principal.name if self.policies else ""

    @property
    def _who(self) -> str:
        return f"{self.principal.name!r} ({self.principal.role})"

    @property
    def _grantee(self) -> str:
        """Return whom to grant something, so that it holds for the principal."""
        principal = self.principal
        return principal.name if principal.known else min(principal.groups, default=principal.role)

    def _denied(self, privilege: str, kind: str, name: str) -> PermissionDeniedError:
        if self.principal.role == "readonly" and privilege not in READING:
            return PermissionDeniedError(f"{self._who} may not change anything: {privilege} on {kind.lower()} {name!r}")
        missing = f", or there is none: see SHOW {kind}S;" if privilege in READING else ":"
        return PermissionDeniedError(
            f"{self._who} has no {privilege} on {kind.lower()} {name!r}{missing} an admin grants it by"
            f" GRANT {privilege} ON {kind} {name} TO {self._grantee}"
        )
