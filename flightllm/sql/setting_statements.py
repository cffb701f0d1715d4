"""Parser for SHOW, SET and RESET of the server's settings."""

from collections.abc import Sequence

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.cursor import Cursor
from flightllm.sql.names import read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind

SETTING_PREFIX = "flightllm"


def read_show(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it shows settings of this server, else None."""
    parts, after = read_parts(tokens, 1)
    if parts[:1] != (SETTING_PREFIX,) or after != len(tokens):
        return None
    return Statement("show", text, key=".".join(parts[1:]) or "all")


def read_set(tokens: Sequence[Token], text: str) -> Statement:
    """Read SET of a setting; the word DEFAULT as its value resets it, as in PostgreSQL.

    Raises:
        SqlError: the value is missing, or more than one value follows.
        UnsupportedError: it is not a setting of this server.
    """
    key, cursor = _setting(tokens, "SET")
    if not (cursor.symbol("=") or cursor.take("to")):
        raise SqlError(f"write SET {SETTING_PREFIX}.{key} = 'value'")
    sign = "-" if cursor.symbol("-") else ""
    value = cursor.next()
    if value is None:
        raise SqlError("a value was expected at the end")
    if value.kind not in {TokenKind.WORD, TokenKind.STRING, TokenKind.NUMBER, TokenKind.QUOTED}:
        raise SqlError(f"a value was expected, found {value.text[:40]!r}")
    cursor.end(f"SET {SETTING_PREFIX}.{key} takes one value; quote a value of several words")
    if value.is_word("default") and not sign:
        return Statement("reset", text, key=key)
    if value.is_word("null"):
        raise SqlError(f"a setting has no NULL: write SET {SETTING_PREFIX}.{key} = DEFAULT")
    return Statement("set", text, key=key, value=sign + value.text)


def read_reset(tokens: Sequence[Token], text: str) -> Statement:
    """Read RESET of one setting or of all.

    Raises:
        SqlError: something follows the setting.
        UnsupportedError: it is not a setting of this server.
    """
    if len(tokens) == 2 and tokens[1].is_word("all"):
        return Statement("reset", text, key="all")
    key, cursor = _setting(tokens, "RESET")
    cursor.end("RESET takes one setting")
    return Statement("reset", text, key=key)


def _setting(tokens: Sequence[Token], verb: str) -> tuple[str, Cursor]:
    """Return the key of a setting, and the cursor after it."""
    parts, after = read_parts(tokens, 1)
    if len(parts) < 2 or parts[0] != SETTING_PREFIX:
        raise UnsupportedError(f"only this server's own settings can be changed: {verb} {SETTING_PREFIX}.NAME")
    return ".".join(parts[1:]), Cursor(tokens, after)
