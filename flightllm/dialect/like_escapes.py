"""Rewrite the escape character of LIKE and ILIKE, which DataFusion takes only if it is the backslash."""

import re
from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind, position

_ENDS = ("and", "or", "when", "then", "else", "where", "on", "having", "select", "from")
"""Words before which a pattern ends."""


def like_escapes(source: Source) -> Iterator[Edit]:
    r"""Rewrite `a LIKE '%!_%' ESCAPE '!'` as `a LIKE '%\_%'`; a pattern that is computed gets a call around it.

    Raises:
        SqlError: an escape character is not one literal character, or ends a pattern.
    """
    for index, token in enumerate(source.tokens):
        if not token.is_word("escape") or (first := _start(source, index)) is None:
            continue
        place = position(source.sql, token.start)
        given = source.tokens[index + 1] if index + 1 < len(source.tokens) else None
        if given is None or given.kind is not TokenKind.STRING or len(given.text) > 1:
            raise SqlError(f"ESCAPE at {place}: write one character as a text literal after it, as in ESCAPE '!'")
        escape = given.text
        if escape == "\\":
            continue
        start, end = source.tokens[first].start, source.tokens[index - 1].end
        pattern = source.tokens[first]
        yield Edit(end, given.end, "")
        if index == first + 1 and pattern.kind is TokenKind.STRING:
            if escape and (len(pattern.text) - len(pattern.text.rstrip(escape))) % 2:
                raise SqlError(
                    f"ESCAPE at {place}: its pattern ends in {escape}: write {escape}{escape} to mean itself"
                )
            yield Edit(start, end, text_literal(_with_backslashes(pattern.text, escape)))
        elif escape:
            yield Edit(start, start, "regexp_replace(")
            found = text_literal(rf"{re.escape(escape)}(.)|(\\)")
            yield Edit(end, end, rf", {found}, '\\\1\2', 'gs')")
        else:
            yield Edit(start, start, "replace(")
            yield Edit(end, end, r", '\', '\\')")


def _start(source: Source, index: int) -> int | None:
    """Return the first token of the pattern of LIKE or ILIKE that ends before a token, or None."""
    at = index - 1
    while at > 0:
        if source.is_word(at, "like", "ilike") and not source.is_symbol(at - 1, "."):
            return at + 1 if at + 1 < index else None
        token = source.tokens[at]
        at = source.scopes.opening.get(at, at)
        if at in source.closing and token is source.tokens[at]:
            return None
        if token.is_symbol(",") or token.is_symbol(";") or token.is_word(*_ENDS):
            return None
        at -= 1
    return None


def _with_backslashes(pattern: str, escape: str) -> str:
    r"""Return a pattern whose escape character is the backslash: `50!%\` with the escape `!` is `50\%\\`."""
    parts, escaped = list[str](), False
    for char in pattern:
        if char == escape and not escaped:
            escaped = True
            continue
        parts.append(f"\\{char}" if char == "\\" or (escaped and char in "%_") else char)
        escaped = False
    return "".join(parts)
