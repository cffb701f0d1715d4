"""What may be granted, and what restricts the rows and columns that somebody sees."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from flightllm.common.names import TableName

Privilege = Literal["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "USAGE"]
ObjectKind = Literal["SCHEMA", "TABLE", "MODEL", "PROMPT"]
_TABLE: tuple[Privilege, ...] = ("SELECT", "INSERT", "UPDATE", "DELETE")
PRIVILEGES: MappingProxyType[ObjectKind, tuple[Privilege, ...]] = MappingProxyType(
    {"SCHEMA": (*_TABLE, "CREATE"), "TABLE": _TABLE, "MODEL": ("USAGE",), "PROMPT": ("USAGE",)}
)
"""What may be granted on each kind of object; on a schema, for all its tables, those to come included."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one object for a user, a group or a role. A schema has no `name`, a model no `schema`."""

    grantee: str
    privilege: Privilege
    kind: ObjectKind
    schema: str
    name: str

    @property
    def object(self) -> str:
        """Return the object as messages name it."""
        if self.kind == "SCHEMA":
            return self.schema
        return TableName(self.schema, self.name).display if self.kind == "TABLE" else self.name


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """A row filter, or with `column` that column's mask, for a user, a group or a role."""

    grantee: str
    schema: str
    table: str
    column: str
    """Empty for a row filter."""
    expression: str
    """SQL over the table's columns; `current_user` in it is the name of whoever asks."""

    @property
    def target(self) -> TableName:
        """Return the table."""
        return TableName(self.schema, self.table)
