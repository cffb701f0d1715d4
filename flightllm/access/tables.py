"""The system tables about users and their rights: `system.users`, `system.grants`, `system.policies`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import pyarrow as pa

from flightllm.access.store import AccessStore, User

_USERS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "role", "groups", "tenant")),
        *((f"{per}_{what}", pa.int64()) for what in ("calls", "tokens") for per in ("daily", "spent")),
        *((f"{per}_cost", pa.float64()) for per in ("daily", "spent")),
    ]
)
"""`spent_calls`, `spent_tokens` and `spent_cost` are those of today (UTC)."""
_GRANTS = pa.schema([(name, pa.string()) for name in ("grantee", "privilege", "kind", "schema", "name")])
_POLICIES = pa.schema([(name, pa.string()) for name in ("grantee", "schema", "table", "column", "expression")])
"""The column is NULL for a row filter."""


def today() -> str:
    """Return the present day (UTC), to which spending is counted."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


class AccessTables:
    """Reads these system tables from the store. Safe to use from several threads."""

    def __init__(self, store: AccessStore) -> None:
        self._store = store

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return MappingProxyType({"users": _USERS, "grants": _GRANTS, "policies": _POLICIES})

    def snapshot(self, name: str) -> pa.Table:
        """Return the present rows of a table."""
        now = self._store.snapshot()
        if name == "grants":
            rows = [{field: getattr(grant, field) for field in _GRANTS.names} for grant in now.grants]
            return pa.Table.from_pylist(rows, _GRANTS)
        if name == "policies":
            rows = [{field: getattr(policy, field) or None for field in _POLICIES.names} for policy in now.policies]
            return pa.Table.from_pylist(rows, _POLICIES)
        return pa.Table.from_pylist([self._user(user) for user in now.users.values()], _USERS)

    def _user(self, user: User) -> dict[str, object]:
        allowance = user.allowance
        calls, tokens, cost = self._store.spent(user.name, today())
        return {
            "name": user.name,
            "role": user.role,
            "groups": ", ".join(sorted(user.groups)),
            "tenant": user.tenant,
            "daily_calls": allowance.calls,
            "spent_calls": calls,
            "daily_tokens": allowance.tokens,
            "spent_tokens": tokens,
            "daily_cost": allowance.cost,
            "spent_cost": cost,
        }
