"""Rewrite MySQL's operators RLIKE and REGEXP, which DataFusion parses and then refuses."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.scopes import NO_ALIAS
from flightllm.sql.tokens import TokenKind

NAMES = frozenset(("rlike", "regexp"))
_VALUES = (TokenKind.QUOTED, TokenKind.STRING, TokenKind.LITERAL, TokenKind.NUMBER, TokenKind.PLACEHOLDER)


def regexp_operators(source: Source) -> Iterator[Edit]:
    """Rewrite `a RLIKE 'b'` and `a REGEXP 'b'` as `a ~ 'b'`, and NOT RLIKE as `!~`."""
    for index, token in enumerate(source.tokens):
        negated = source.is_word(index - 1, "not")
        first = index - 1 if negated else index
        if token.is_word(*NAMES) and _ends_value(source, first - 1) and _begins_value(source, index + 1):
            yield Edit(source.tokens[first].start, token.end, "!~" if negated else "~")


def _ends_value(source: Source, index: int) -> bool:
    if index < 0 or source.scopes.names_table[index]:
        return False
    token = source.tokens[index]
    named = token.kind is TokenKind.WORD and (
        source.is_symbol(index - 1, ".") or not token.is_word("as", *EXPRESSION_FOLLOWS)
    )
    return named or token.kind in _VALUES or token.is_symbol(")") or token.is_symbol("]")


def _begins_value(source: Source, index: int) -> bool:
    if index >= len(source.tokens):
        return False
    token = source.tokens[index]
    named = token.kind is TokenKind.WORD and not token.is_word("as", "and", "or", "is", "asc", "desc", *NO_ALIAS)
    return named or token.kind in _VALUES or token.is_symbol("(")
