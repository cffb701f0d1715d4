"""Parser for USE and SET of the session's schema."""

from collections.abc import Sequence

from flightllm.common.names import CATALOG, DEFAULT_SCHEMA
from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

_USAGE = "write USE schema, or SET search_path TO schema [, …]"


def read_place_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it sets the schemas for unqualified names, else None.

    Raises:
        SqlError: the statement does not name a schema, or names another catalog.
    """
    cursor = Cursor(tokens, 0)
    if cursor.take("use"):
        _ = any(cursor.take(word) for word in ("schema", "database", "catalog") if len(tokens) > cursor.at + 1)
        names = [_name(cursor)]
    elif cursor.take("reset", "search_path"):
        names = [DEFAULT_SCHEMA]
    elif cursor.take("set"):
        _ = cursor.take("session") or cursor.take("local")
        if cursor.take("search_path"):
            if not (cursor.take("to") or cursor.symbol("=")):
                raise SqlError(f"TO or = was expected: {_USAGE}")
            names = _names(cursor)
        elif cursor.take("schema") or cursor.take("current_schema") or cursor.take("catalog"):
            _ = cursor.symbol("=") or cursor.take("to")
            names = [_name(cursor)]
        else:
            return None
    else:
        return None
    cursor.end(_USAGE)
    return Statement("search_path", text, columns=tuple(names))


def _names(cursor: Cursor) -> list[str]:
    if cursor.take("default"):
        return [DEFAULT_SCHEMA]
    names = [_name(cursor)]
    while cursor.symbol(","):
        names.append(_name(cursor))
    return names


def _name(cursor: Cursor) -> str:
    """Read a schema: `schema`, `catalog.schema`, or a text in quotes."""
    token = cursor.tokens[cursor.at] if cursor.at < len(cursor.tokens) else None
    if token is not None and token.kind is TokenKind.STRING:
        cursor.at += 1
        return token.text
    parts, cursor.at = read_parts(cursor.tokens, cursor.at)
    if not parts or len(parts) > 2 or (token is not None and identifier(token) is None):
        raise SqlError(f"the name of a schema was expected: {_USAGE}")
    if len(parts) == 2 and parts[0] != CATALOG:
        raise SqlError(f"there is no catalog {parts[0]!r}, only {CATALOG!r}: write USE {parts[1]}")
    return parts[-1]
