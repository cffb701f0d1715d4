"""Tokenizer of SQL with exact source offsets, by the lexical rules of DataFusion's generic dialect.

This module uses the sqlglot tokenizer. It keeps the offsets of every token, and it supports `=>`, nested comments,
dollar quoting and E'' escapes. The library sqlparse does not fit: it differs from DataFusion in nested comments and in
a backslash before a quote, and would misread the text after them. This module switches sqlglot's keywords off. So an
unquoted name is a word, and sqlglot does not turn a whole statement into one "command" token.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as RawToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from flightllm.errors import SqlError

_PARAMETER = re.compile(r"(?<![\w$])\$(?=\d+(?![\w$]))")
_MARK = "\ufdd0"
"""The replacement for the `$` of a parameter in sqlglot, which would read `$1,$2` as a quote with the tag `1,`."""


class TokenKind(Enum):
    """The kind of a token; comments and white space are not tokens."""

    WORD = "word"
    """An unquoted name or keyword."""
    QUOTED = "quoted"
    """A quoted identifier, in double quotes or backticks."""
    STRING = "string"
    """A text literal: '…', E'…', $$…$$."""
    LITERAL = "literal"
    """Another quoted literal: X'…', B'…', U&'…', N'…'; also 0x…."""
    NUMBER = "number"
    PLACEHOLDER = "placeholder"
    """`?`, `$1`, `$name` or `:name`."""
    SYMBOL = "symbol"
    """Punctuation or an operator, such as `(`, `=>`, `::`."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `sql[start:end]` is its source.

    For a quoted name or a string, `text` is the value, without quotes and escapes. For other tokens, it is the source.
    """

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_symbol(self, text: str) -> bool:
        """Return whether this token is the given punctuation or operator."""
        return self.kind is TokenKind.SYMBOL and self.text == text

    def is_word(self, *words: str) -> bool:
        """Return whether this token is one of the given words without quotes; `words` are in lower case."""
        return self.kind is TokenKind.WORD and self.text.lower() in words


@lru_cache(maxsize=2)  # each step of planning reads the same text
def tokenize(sql: str) -> tuple[Token, ...]:
    """Return the tokens of SQL in order; the text between two tokens is white space or comments.

    Raises:
        SqlError: a string, quoted name, dollar quote or comment is not closed. The error has the line:column of its
            start.
    """
    tokenizer = _GenericTokenizer()
    try:
        raw = tokenizer.tokenize(sql if _MARK in sql else _PARAMETER.sub(_MARK, sql))
    except TokenError as error:
        start = tokenizer.failed_at()
        message = f"unterminated or malformed quoted text at {position(sql, start)}: {sql[start : start + 20]!r}"
        raise SqlError(message) from error
    return tuple(_with_placeholders(_token(sql, token) for token in raw))


def position(sql: str, offset: int) -> str:
    """Return the `line:column` of an offset for messages, both counted from 1."""
    column = offset - sql.rfind("\n", 0, offset)
    return f"{sql.count(chr(10), 0, offset) + 1}:{column}"


class _GenericTokenizer(Tokenizer):
    """sqlglot's tokenizer with the quoting rules of sqlparser-rs's generic dialect and no keywords."""

    IDENTIFIERS: ClassVar = ['"', "`"]
    BIT_STRINGS: ClassVar = [("b'", "'"), ("B'", "'")]
    HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
    BYTE_STRINGS: ClassVar = [("e'", "'"), ("E'", "'")]
    BYTE_STRING_ESCAPES: ClassVar = ["'", "\\"]
    UNICODE_STRINGS: ClassVar = [("U&'", "'"), ("u&'", "'")]
    NUMERIC_ESCAPES: ClassVar = {
        "x": (16, 1, 2, 0x7F),
        "u": (16, 4, 4, 0xFFFF),
        "U": (16, 8, 8, 0x10FFFF),
        "0": (8, 1, 3, 0x7F),
    }
    DROP_UNKNOWN_ESCAPES = True
    HEREDOC_STRINGS: ClassVar = ["$"]
    HEREDOC_TAG_IS_IDENTIFIER = True
    HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER
    KEYWORDS: ClassVar = {
        text: kind
        for text, kind in Tokenizer.KEYWORDS.items()
        if not text[0].isalpha() and not {"{", "}", "?"} & {*text} and text != "/*+"
    }
    SINGLE_TOKENS: ClassVar = {**Tokenizer.SINGLE_TOKENS, "$": TokenType.HEREDOC_STRING, _MARK: TokenType.PARAMETER}
    VAR_SINGLE_TOKENS: ClassVar = {"$", "@", "#"}
    COMMANDS: ClassVar = set()
    TOKENS_PRECEDING_HINT: ClassVar = set()
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY = True

    def __init__(self) -> None:
        super().__init__()
        self._core.comments = {"--": None, "/*": "*/"}  # sqlglot adds Jinja's comments to every dialect
        self._core.unescaped_sequences = {"\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t"}  # in E''

    def failed_at(self) -> int:
        """Return the offset of the token that the tokenizer failed to read."""
        return self._core._start  # noqa: SLF001 - the error's own text has no offset


def _token(sql: str, raw: RawToken) -> Token:
    kind = _KINDS.get(raw.token_type, TokenKind.SYMBOL)
    end = raw.end + 1
    valued = kind is TokenKind.STRING or kind is TokenKind.QUOTED
    if not valued:
        return Token(kind, sql[raw.start : end], raw.start, end)
    text = raw.text if _MARK in sql else raw.text.replace(_MARK, "$")
    return Token(kind, text, raw.start, end)


def _with_placeholders(tokens: Iterable[Token]) -> Iterator[Token]:
    """Join `$` or `:` and the number or name directly after it into one placeholder."""
    mark: Token | None = None
    last: Token | None = None
    for token in tokens:
        if mark is not None:
            if token.start == mark.end and token.kind in ({TokenKind.WORD} if mark.text == ":" else _AFTER_DOLLAR):
                last = Token(TokenKind.PLACEHOLDER, f"{mark.text}{token.text}", mark.start, token.end)
                yield last
                mark = None
                continue
            last = mark
            yield last
            mark = None
        if token.is_symbol("$") or (token.is_symbol(":") and _may_follow(last)):
            mark = token
        else:
            last = token
            yield last
    if mark is not None:
        yield mark


_AFTER_DOLLAR = {TokenKind.NUMBER, TokenKind.WORD}
_BEFORE_VALUE = (
    *("select", "distinct", "all", "where", "having", "on", "and", "or", "not", "in", "like", "ilike", "similar", "to"),
    *(
        "between",
        "is",
        "from",
        "for",
        "case",
        "when",
        "then",
        "else",
        "by",
        "limit",
        "offset",
        "values",
        "set",
        "escape",
    ),
    *("interval", "div", "regexp", "rlike", "returning", "over", "top", "fetch", "first", "next", "qualify", "as"),
)


def _may_follow(last: Token | None) -> bool:
    """Return whether a value can follow a token.

    In other places, `:` separates the ends of a slice, or a key and its value.
    """
    if last is None or last.kind is TokenKind.WORD:
        return last is not None and last.is_word(*_BEFORE_VALUE)
    return last.kind is TokenKind.SYMBOL and last.text not in {")", "]", "}", "[", "{"}


_KINDS = {
    TokenType.VAR: TokenKind.WORD,
    TokenType.IDENTIFIER: TokenKind.QUOTED,
    TokenType.STRING: TokenKind.STRING,
    TokenType.BYTE_STRING: TokenKind.STRING,
    TokenType.HEREDOC_STRING: TokenKind.STRING,
    TokenType.HEX_STRING: TokenKind.LITERAL,
    TokenType.BIT_STRING: TokenKind.LITERAL,
    TokenType.UNICODE_STRING: TokenKind.LITERAL,
    TokenType.NATIONAL_STRING: TokenKind.LITERAL,
    TokenType.NUMBER: TokenKind.NUMBER,
    TokenType.PLACEHOLDER: TokenKind.PLACEHOLDER,
}


def closing_parenthesis(tokens: Sequence[Token], start: int) -> int:
    """Return the index of the parenthesis that closes the one at `start`.

    Raises:
        SqlError: the parenthesis is not closed.
    """
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0:
            return index
    raise SqlError("a ')' is missing")
