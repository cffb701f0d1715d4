"""Compare names without case: an unquoted name can mean a name with capitals, such as a column of a file's header."""

from collections.abc import Collection, Iterable
from string import ascii_lowercase, ascii_uppercase

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, position

_FOLDING = str.maketrans(ascii_uppercase, ascii_lowercase)


def name_at(token: Token) -> str | None:
    """Return the name that DataFusion reads at a token: only the letters of ASCII fold. None for another token."""
    if token.kind is TokenKind.QUOTED:
        return token.text
    return token.text.translate(_FOLDING) if token.kind is TokenKind.WORD else None


def spelling(source: Source, index: int, known: Collection[str], what: str = "column") -> str | None:
    """Return the one of some known names that a token means, or None: an exact name, or the only one without case.

    Raises:
        SqlError: several names are equal without case, and the exact one is not among them.
    """
    token = source.tokens[index]
    name = name_at(token)
    if name is None or name in known:
        return name
    if token.kind is TokenKind.QUOTED:
        return None
    wanted = name.casefold()
    alike = sorted({one for one in known if one.casefold() == wanted})
    if len(alike) > 1:
        raise ambiguous(source, index, what, map(quoted, alike))
    return alike[0] if alike else None


def ambiguous(source: Source, index: int, what: str, spellings: Iterable[str]) -> SqlError:
    """Return the error for a name that can mean several names."""
    token = source.tokens[index]
    return SqlError(
        f"the {what} {token.text!r} at {position(source.sql, token.start)} can be {' or '.join(spellings)}:"
        " write the one that is meant in double quotes"
    )
