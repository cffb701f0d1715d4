"""Names of tables as SQL writes them: unquoted parts fold to lower case, quoted ones stay exact."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from flightllm.errors import SqlError
from flightllm.sql.tokens import Kind, Token, tokenize

CATALOG = "flightllm"
DEFAULT_SCHEMA = "public"
SYSTEM_SCHEMA = "system"
RESERVED = (SYSTEM_SCHEMA, "information_schema")
"""Schemas of the server's own tables."""
TEMPORARY_PREFIX = "pg_temp_"
"""Begins the names of the schemas that have sessions' temporary tables, one for each session."""
STORED_SUFFIX = f" (as stored {secrets.token_hex(8)})"
"""Ends the hidden name of a table's rows as they are stored, under a view of them; nobody's to say, know or guess."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's exact schema and name in the one catalog."""

    schema: str
    name: str

    @property
    def display(self) -> str:
        """Return the shortest readable name, for messages."""
        plain = self.schema == DEFAULT_SCHEMA or is_temporary(self.schema)
        return self.name if plain else f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """Return the full name, quoted for SQL."""
        return f"{quoted(CATALOG)}.{quoted(self.schema)}.{quoted(self.name)}"


def is_temporary(schema: str) -> bool:
    """Tell whether a schema has the temporary tables of a session."""
    return schema.startswith(TEMPORARY_PREFIX)


def quoted(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def identifier(token: Token) -> str | None:
    """Return the name an identifier token means, or None where the token is no identifier."""
    if token.kind is Kind.QUOTED:
        return token.text
    return token.text.lower() if token.kind is Kind.WORD else None


def with_name(tokens: Sequence[Token], index: int) -> str | None:
    """Return the name of the WITH query whose text the parenthesis at `index` opens, if it does."""
    at = index - 1
    while at > 0 and tokens[at].is_word("materialized", "not"):
        at -= 1
    if at < 1 or not tokens[at].is_word("as"):
        return None
    at -= 1
    if tokens[at].is_symbol(")"):
        while at > 0 and not tokens[at].is_symbol("("):
            at -= 1
        at -= 1
    return identifier(tokens[at]) if at >= 0 else None


def read_parts(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Read `a.b.c` from the token `start` on; return its parts and the index after it (no part: an empty tuple)."""
    parts: list[str] = []
    index = start
    while index < len(tokens) and (part := identifier(tokens[index])) is not None:
        parts.append(part)
        index += 1
        if index >= len(tokens) or not tokens[index].is_symbol("."):
            break
        index += 1
    return tuple(parts), index


def read_name(tokens: Sequence[Token], start: int) -> tuple[TableName, int]:
    """Read a table name from the token `start` on; return it and the index after it.

    Raises:
        SqlError: no name stands there, or it names another catalog.
    """
    parts, after = read_parts(tokens, start)
    return table_name(parts), after


def table_name(parts: Sequence[str]) -> TableName:
    """Return the table meant by one to three exact name parts.

    Raises:
        SqlError: there is no part, too many, or the first of three is another catalog.
    """
    match parts:
        case [name]:
            return TableName(DEFAULT_SCHEMA, name)
        case [schema, name]:
            return TableName(schema, name)
        case [catalog, schema, name] if catalog == CATALOG:
            return TableName(schema, name)
        case []:
            raise SqlError("a table name was expected")
        case _:
            raise SqlError(f"there is no catalog {parts[0]!r}: write {CATALOG}.SCHEMA.TABLE, SCHEMA.TABLE or TABLE")


def parse_name(text: str) -> TableName:
    """Return the table that SQL text such as `movies`, `x."Movies"` or `flightllm.public.movies` means.

    Raises:
        SqlError: the text is no table name.
    """
    tokens = tokenize(text)
    name, after = read_name(tokens, 0)
    if after != len(tokens) or tokens[-1].is_symbol("."):
        raise SqlError(f"{text!r} is no table name; quote one with special characters: {quoted(text)}")
    return name
