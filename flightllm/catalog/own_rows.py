"""The system tables for somebody who is no admin: the rows about what is theirs, without what is kept from them."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from flightllm.access.rights import Rights
from flightllm.catalog.entries import SystemTables
from flightllm.common.names import TableName

Row = Mapping[str, Any]
_OF_TABLES = ("table_constraints", "key_column_usage", "referential_constraints", "constraint_column_usage")
"""Whose rows name a table."""


class OwnRows:
    """System tables of which a principal sees its own queries and sessions, and objects that it may use."""

    def __init__(
        self,
        system: SystemTables,
        rights: Rights,
        readable: Callable[[str], bool],
        whole: Callable[[str], bool],
    ) -> None:
        """`readable` and `whole` tell of a table's name whether the principal reads it, and all of its rows."""
        self._system = system
        self._rights = rights
        self._readable = readable
        self._whole = whole

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return self._system.schemas

    def snapshot(self, name: str) -> pa.Table:
        """Return the principal's rows of a table as they are now."""
        table = self._system.snapshot(name)
        shown, part = self._shown(name), self._part(name)
        return pa.Table.from_pylist([part(row) for row in table.to_pylist() if shown(row)], schema=table.schema)

    def _part(self, name: str) -> Callable[[Row], Row]:
        """Return what a row becomes without the values that the principal may not know."""
        parts: dict[str, Callable[[Row], Row]] = {"vector_indexes": self._index, "models": self._model}
        return parts.get(name, lambda row: row)

    def _index(self, row: Row) -> Row:
        """Leave out what tells of rows that a filter hides."""
        return row if self._whole(row["table"]) else {**row, **dict.fromkeys(("rows", "nulls", "bytes"))}

    def _model(self, row: Row) -> Row:
        """Leave out paths and addresses of the server's from a model of somebody else's."""
        if row["owner"] is not None and row["owner"] == self._rights.principal.name:
            return row
        options = json.loads(row["options"] or "{}")
        harmless = {key: value for key, value in options.items() if isinstance(value, bool | int | float)}
        path = PurePath(row["model"] or "")
        return {
            **row,
            "model": path.name if path.is_absolute() or "~" in path.parts or ".." in path.parts else row["model"],
            "options": json.dumps(harmless),
            "error": row["error"] and "it does not run: an admin sees why in system.models",
        }

    def _is_readable(self, row: Row) -> bool:
        return self._readable(TableName(row["table_schema"], row["table_name"]).display)

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
            **dict.fromkeys(_OF_TABLES, self._is_readable),
            "settings": lambda row: row["source"] == "default" or row["user"] == principal.name,
        }
        return rules.get(name, lambda _: False)
