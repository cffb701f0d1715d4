"""The system tables for somebody who is no admin: the rows about what is theirs."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from flightllm.access.rights import Rights
from flightllm.catalog.entries import SystemTables

Row = Mapping[str, Any]


class OwnRows:
    """System tables of which a principal sees its own queries and sessions, and objects that it may use."""

    def __init__(self, system: SystemTables, rights: Rights, readable: Callable[[str], bool]) -> None:
        self._system = system
        self._rights = rights
        self._readable = readable

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return self._system.schemas

    def snapshot(self, name: str) -> pa.Table:
        """Return the principal's rows of a table as they are now."""
        table = self._system.snapshot(name)
        shown = self._shown(name)
        return table.filter(pa.array([shown(row) for row in table.to_pylist()], pa.bool_()))

    def _shown(self, name: str) -> Callable[[Row], bool]:
        principal = self._rights.principal
        rules: dict[str, Callable[[Row], bool]] = {
            "queries": lambda row: row["user"] == principal.name,
            "ai_calls": lambda row: row["user"] == principal.name,
            "sessions": lambda row: row["user"] == principal.name,
            "grants": lambda row: row["grantee"] in principal.grantees,
            "policies": lambda row: row["grantee"] in principal.grantees,
            "users": lambda row: row["name"] == principal.name,
            "models": lambda row: self._rights.may_use("MODEL", row["name"], row["owner"]),
            "prompts": lambda row: self._rights.may_use("PROMPT", row["name"], row["owner"]),
            "vector_indexes": lambda row: self._readable(row["table"]),
            "cache": lambda _: True,
            "settings": lambda row: row["source"] == "default" or row["user"] == principal.name,
        }
        return rules.get(name, lambda _: False)
