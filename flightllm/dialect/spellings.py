"""Compare names without case: an unquoted name can mean a name with capitals, such as a column of a file's header."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, position

_PLAIN = re.compile("[a-z_][a-z0-9_]*")
_FOLDING = str.maketrans(ascii_uppercase, ascii_lowercase)


def name_at(token: Token) -> str | None:
    """Return the name that DataFusion reads at a token: only the letters of ASCII fold. None for another token."""
    if token.kind is TokenKind.QUOTED:
        return token.text
    return token.text.translate(_FOLDING) if token.kind is TokenKind.WORD else None


def without_case(names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return names by their form without case."""
    found = dict[str, list[str]]()
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return found


def spelling(
    source: Source,
    index: int,
    known: Collection[str],
    what: str = "column",
    folded: Callable[[], Mapping[str, Sequence[str]]] | None = None,
) -> str | None:
    """Return the one of some known names that a token means, or None: an exact name, or the only one without case.

    `folded` can return the names by their form without case, so that many tokens need it only once.

    Raises:
        SqlError: several names are equal without case, and the exact one is not among them.
    """
    token = source.tokens[index]
    name = name_at(token)
    if name is None or name in known:
        return name
    if token.kind is TokenKind.QUOTED:
        return None
    alike = sorted(set((without_case(known) if folded is None else folded()).get(name.casefold(), ())))
    if len(alike) > 1:
        raise ambiguous(source, index, what, map(quoted, alike))
    return alike[0] if alike else None


def ambiguous(
    source: Source, index: int, what: str, spellings: Iterable[str], how: str = " in double quotes"
) -> SqlError:
    """Return the error for a name that can mean several names; `how` ends the advice to write one of them."""
    token = source.tokens[index]
    return SqlError(
        f"the {what} {token.text!r} at {position(source.sql, token.start)} can be {' or '.join(spellings)}:"
        f" write the one that is meant{how}"
    )


def shown(name: str) -> str:
    """Return a name with double quotes only if it needs them."""
    return name if _PLAIN.fullmatch(name) else quoted(name)
