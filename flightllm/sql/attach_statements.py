"""Parser for ATTACH, DETACH and REFRESH DATABASE."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import identifier
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

_ATTACH = "write ATTACH 'postgresql://host/db' AS name (TYPE postgres, USER 'me', PASSWORD 'env:NAME')"
_DETACH = "write DETACH [DATABASE] [IF EXISTS] name"
_REFRESH = "write REFRESH DATABASE name"
_OPTIONS = ("type", "schema", "user", "password", "ttl_seconds", "connect_seconds")
_VALUES = frozenset({TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD, TokenKind.QUOTED, TokenKind.PLACEHOLDER})


def read_attach(tokens: Sequence[Token], text: str) -> Statement:
    """Read ATTACH; `value` is the address, `key` the name, and `options` are those in parentheses.

    Raises:
        SqlError: a part is missing or unknown.
    """
    cursor = Cursor(tokens, 1)
    replaces = cursor.take("or", "replace")
    _ = cursor.take("database")
    exists_ok = cursor.take("if", "not", "exists")
    address = cursor.next()
    if address is None or address.kind not in {TokenKind.STRING, TokenKind.PLACEHOLDER}:
        raise SqlError(f"the address must be a text in single quotes: {_ATTACH}")
    name = cursor.name("a database", _ATTACH) if cursor.take("as") else _name_of(address.text)
    options = _options(cursor) if cursor.symbol("(") else {}
    cursor.end(_ATTACH)
    return Statement(
        "attach",
        text,
        key=name,
        value=address.text,
        or_replace=replaces,
        exists_ok=exists_ok,
        options=MappingProxyType(dict(options)),
    )


def _name_of(address: str) -> str:
    """Return the name of a file without its folder and ending."""
    name = "" if "://" in address or "=" in address or ":" in address else PurePath(address).stem
    if not name.isidentifier():
        raise SqlError(f"the name does not follow from the address: {_ATTACH}")
    return name.lower()


def _options(cursor: Cursor) -> Mapping[str, str]:
    found = dict[str, str]()
    while True:
        token = cursor.next()
        name = None if token is None else identifier(token)
        if name == "read_only":
            _ = cursor.symbol("=")
            if not cursor.take("true"):
                _ = cursor.take("1")
        elif name not in _OPTIONS:
            shown = "" if name is None else f": there is no option {name[:40]!r}"
            raise SqlError(f"the options are {', '.join(_OPTIONS)} and read_only{shown}; {_ATTACH}")
        elif name in found:
            raise SqlError(f"the option {name} is given twice")
        else:
            _ = cursor.symbol("=")
            value = cursor.next()
            if value is None or value.kind not in _VALUES:
                raise SqlError(f"the option {name} needs a value: {_ATTACH}")
            found[name] = value.text
        if cursor.symbol(")"):
            return found
        if not cursor.symbol(","):
            raise SqlError(f"a comma or ) was expected after the option {name}: {_ATTACH}")


def read_detach(tokens: Sequence[Token], text: str) -> Statement:
    """Read DETACH.

    Raises:
        SqlError: the name is missing, or more follows.
    """
    cursor = Cursor(tokens, 1)
    _ = cursor.take("database")
    exists_ok = cursor.take("if", "exists")
    name = cursor.name("a database", _DETACH)
    cursor.end(_DETACH)
    return Statement("detach", text, key=name, exists_ok=exists_ok)


def read_refresh_database(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it is REFRESH DATABASE, else None.

    Raises:
        SqlError: the name is missing, or more follows.
    """
    cursor = Cursor(tokens, 0)
    if not cursor.take("refresh", "database"):
        return None
    name = cursor.name("a database", _REFRESH)
    cursor.end(_REFRESH)
    return Statement("refresh_database", text, key=name)
