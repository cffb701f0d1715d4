"""The system tables for a user who is not an admin: only their own rows, without values that are hidden from them."""

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
"""System tables whose rows name a table."""


class OwnRows:
    """System tables with only the principal's queries, sessions and usable objects."""

    def __init__(
        self,
        system: SystemTables,
        rights: Rights,
        readable: Callable[[str], bool],
        whole: Callable[[str], bool],
    ) -> None:
        """Take two tests for a table's name: `readable` (some rows can be read) and `whole` (all rows can be read)."""
        self._system = system
        self._rights = rights
        self._readable = readable
        self._whole = whole

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return self._system.schemas

    def snapshot(self, name: str) -> pa.Table:
        """Return the present rows of a table that the principal can see."""
        table = self._system.snapshot(name)
        shown, part = self._shown(name), self._part(name)
        return pa.Table.from_pylist([part(row) for row in table.to_pylist() if shown(row)], schema=table.schema)

    def _part(self, name: str) -> Callable[[Row], Row]:
        """Return a function that removes the values of a row that the principal must not know."""
        parts: dict[str, Callable[[Row], Row]] = {
            "vector_indexes": self._index,
            "models": self._model,
            "filters": self._filter,
        }
        return parts.get(name, lambda row: row)

    def _index(self, row: Row) -> Row:
        """Remove the counts of an index over a table with hidden rows."""
        return row if self._whole(row["table"]) else {**row, **dict.fromkeys(("rows", "nulls", "failed", "bytes"))}

    def _filter(self, row: Row) -> Row:
        """Remove the query of the labels from another user's filter: its literals can be values of hidden rows."""
        return row if row["owner"] == self._rights.principal.name else {**row, "fit_on": None}

    def _model(self, row: Row) -> Row:
        """Remove the server's paths and addresses from another user's model."""
        if row["owner"] is not None and row["owner"] == self._rights.principal.name:
            return row
        options = json.loads(row["options"] or "{}")
        harmless = {key: value for key, value in options.items() if isinstance(value, bool | int | float)}
        path = PurePath(row["model"] or "")
        return {
            **row,
            "model": path.name if path.is_absolute() or "~" in path.parts or ".." in path.parts else row["model"],
            "options": json.dumps(harmless),
            "error": row["error"] and "the model does not run: an admin can see why in system.models",
        }

    def _is_readable(self, row: Row) -> bool:
        return self._readable(TableName(row["table_schema"], row["table_name"]).display)

    def _shown(self, name: str) -> Callable[[Row], bool]:
        principal = self._rights.principal
        rules: dict[str, Callable[[Row], bool]] = {
            "queries": lambda row: row["user"] == principal.name,
            "ai_calls": lambda row: row["user"] == principal.name,
            "sessions": lambda row: row["user"] == principal.name,
            "batches": lambda row: row["user"] == principal.name,
            "labels": lambda row: row["user"] == principal.name,
            "grants": lambda row: row["grantee"] in principal.grantees,
            "policies": lambda row: row["grantee"] in principal.grantees,
            "users": lambda row: row["name"] == principal.name,
            "models": lambda row: self._rights.may_use("MODEL", row["name"], row["owner"]),
            "prompts": lambda row: self._rights.may_use("PROMPT", row["name"], row["owner"]),
            "functions": lambda row: self._rights.may_use("FUNCTION", row["name"], row["owner"]),
            "filters": lambda row: self._rights.may_use("FUNCTION", row["name"], row["owner"]),
            "vector_indexes": lambda row: self._readable(row["table"]),
            "cache": lambda _: True,
            **dict.fromkeys(_OF_TABLES, self._is_readable),
            "settings": lambda row: row["source"] == "default" or row["user"] == principal.name,
        }
        return rules.get(name, lambda _: False)
