"""Privileges that admins can grant, and policies that restrict the rows and columns that a user sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from flightllm.common.names import TableName
from flightllm.sql.tokens import Token, TokenKind

Privilege = Literal["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "USAGE"]
ObjectKind = Literal["SCHEMA", "TABLE", "MODEL", "PROMPT", "FUNCTION"]
_TABLE: tuple[Privilege, ...] = ("SELECT", "INSERT", "UPDATE", "DELETE")
PRIVILEGES: MappingProxyType[ObjectKind, tuple[Privilege, ...]] = MappingProxyType(
    {
        "SCHEMA": (*_TABLE, "CREATE"),
        "TABLE": _TABLE,
        "MODEL": ("USAGE",),
        "PROMPT": ("USAGE",),
        "FUNCTION": ("USAGE",),
    }
)
"""The privileges for each kind of object. A grant on a schema covers all its present and future tables."""
SAME_AS_USAGE = "EXECUTE"
"""PostgreSQL's word for the right to use a function."""
_WORDS: MappingProxyType[str, ObjectKind] = MappingProxyType(
    {**{kind.lower(): kind for kind in PRIVILEGES}, "filter": "FUNCTION"}
)
"""The words that name a kind; a learned filter is a function."""


def kind_after_on(tokens: Sequence[Token], at: int) -> tuple[ObjectKind, int]:
    """Return the kind of the object that GRANT or REVOKE names, and the token at which its name begins.

    `at` is the token after ON. A word without quotes names a kind, unless it is the object's own name or schema:

    | text                     | kind     | name       |
    |--------------------------|----------|------------|
    | `ON FILTER spam TO ann`  | FUNCTION | `spam`     |
    | `ON filter TO ann`       | TABLE    | `filter`   |
    | `ON model.t TO ann`      | TABLE    | `model.t`  |
    """
    kind = _WORDS.get(tokens[at].text.lower()) if at < len(tokens) and tokens[at].kind is TokenKind.WORD else None
    own = any(token.is_word("to", "from") or token.is_symbol(".") for token in tokens[at + 1 : at + 2])
    return ("TABLE", at) if kind is None or own else (kind, at + 1)


def shown_by(kind: str) -> str:
    """Return the statement that lists objects of a kind: SHOW FUNCTIONS lists those of the server."""
    return "SHOW USER FUNCTIONS" if kind == "FUNCTION" else f"SHOW {kind}S"


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one object for a user, a group or a role.

    For a schema, `name` is empty. For a model, a prompt or a function, `schema` is empty.
    """

    grantee: str
    privilege: Privilege
    kind: ObjectKind
    schema: str
    name: str

    @property
    def object(self) -> str:
        """Return the name of the object for messages."""
        if self.kind == "SCHEMA":
            return self.schema
        return TableName(self.schema, self.name).display if self.kind == "TABLE" else self.name


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """A row filter, or the mask of the column `column`, for a user, a group or a role."""

    grantee: str
    schema: str
    table: str
    column: str
    """Empty for a row filter."""
    expression: str
    """SQL over the table's columns; `current_user` in this SQL is the name of the user who sends the query."""

    @property
    def target(self) -> TableName:
        """Return the table."""
        return TableName(self.schema, self.table)
