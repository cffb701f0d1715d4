"""Rewrite SIMILAR TO, whose patterns DataFusion reads as regular expressions that match anywhere in a text."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind, position

_EXTENDS = ("::", "||", "+", "-", "*", "/", "%", "&", "|", "#", "^", "<<", ">>", "->", "->>", "[", ".")
"""Operators that bind more tightly than SIMILAR TO: after a literal, they make the pattern more than this literal."""
_WILDCARDS = {"%": ".*", "_": ".", "(": "(?:"}
_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
"""The characters that have a meaning in a regular expression."""


def similar_to(source: Source) -> Iterator[Edit]:
    """Rewrite `a SIMILAR TO 'x_%'` as `a ~ '^(?s:x..*)$'`, and NOT SIMILAR TO as `!~`.

    Raises:
        SqlError: a pattern or its escape character is not a literal, or the pattern is malformed.
    """
    for index, token in enumerate(source.tokens[:-2]):
        if not token.is_word("similar") or not source.is_word(index + 1, "to") or source.is_symbol(index - 1, "."):
            continue
        first, last = _pattern(source, index + 2)
        negated = source.is_word(index - 1, "not")
        start = source.tokens[index - 1 if negated else index].start
        yield Edit(start, source.tokens[index + 1].end, "!~" if negated else "~")
        if source.is_word(first, "null"):
            continue
        escape, end = "\\", last
        if source.is_word(last, "escape"):
            escape, end = _escape(source, index, last + 1), last + 2
        try:
            found = regular_expression(source.tokens[first].text, escape)
        except ValueError as error:
            raise SqlError(f"SIMILAR TO at {position(source.sql, token.start)}: {error}") from error
        yield Edit(source.tokens[index + 2].start, source.tokens[end - 1].end, text_literal(found))


def _pattern(source: Source, index: int) -> tuple[int, int]:
    """Return the index of a pattern's literal, and the index of the token after it and its parentheses."""
    first = index
    while source.is_symbol(first, "("):
        first += 1
    last = first + 1
    while last - first <= first - index and source.is_symbol(last, ")"):
        last += 1
    token = source.tokens[first] if first < len(source.tokens) else None
    literal = token is not None and (token.kind is TokenKind.STRING or token.is_word("null"))
    closed = last - first - 1 == first - index
    if not literal or not closed or any(source.is_symbol(last, operator) for operator in _EXTENDS):
        place = position(source.sql, source.tokens[index - 2].start)
        raise SqlError(
            f"SIMILAR TO at {place} takes a text literal as its pattern, as in name SIMILAR TO '(a|b)%':"
            " write a literal, or LIKE, or ~ with a regular expression"
        )
    return first, last


def _escape(source: Source, index: int, at: int) -> str:
    token = source.tokens[at] if at < len(source.tokens) else None
    if token is None or token.kind is not TokenKind.STRING or len(token.text) > 1:
        place = position(source.sql, source.tokens[index].start)
        raise SqlError(f"SIMILAR TO at {place}: write one character after ESCAPE, as in ESCAPE '!'")
    return token.text


def regular_expression(pattern: str, escape: str = "\\") -> str:
    """Return the regular expression of a pattern of SIMILAR TO; it matches whole texts, and line breaks too.

    An empty `escape` means that the pattern has no escape character.

    Raises:
        ValueError: the pattern ends in its escape character or within brackets.
    """
    parts, at = list[str](), 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            if at == len(pattern):
                raise ValueError(f"the pattern ends in its escape character {escape}: write it twice to mean itself")
            parts.append(_plain(pattern[at]))
            at += 1
        elif char == "[":
            part, at = _brackets(pattern, at, escape)
            parts.append(part)
        else:
            parts.append(_WILDCARDS.get(char) or (_plain(char) if char in "\\.^$" else char))
    return f"^(?s:{''.join(parts)})$"


def _brackets(pattern: str, at: int, escape: str) -> tuple[str, int]:
    """Return the brackets that open before `at`, and the place after them."""
    negated = pattern.startswith("^", at)
    parts, at = ["[^" if negated else "["], at + negated
    first = at
    while at < len(pattern):
        char = pattern[at]
        name = pattern.find(":]", at + 2) if pattern.startswith("[:", at) else -1
        if name >= 0:
            parts.append(pattern[at : name + 2])
            at = name + 2
            continue
        at += 1
        if char == escape and at < len(pattern):
            parts.append(_plain(pattern[at]))
            at += 1
        elif char == "]" and at > first + 1:
            return f"{''.join(parts)}]", at
        else:
            parts.append(char if char == "-" else _plain(char))
    raise ValueError("a [ in the pattern has no ]: write \\[ to mean the character")


def _plain(char: str) -> str:
    return f"\\{char}" if char in _SPECIAL else char
