"""SQL tokens with exact source offsets, under the lexical rules of DataFusion's generic dialect.

The tokenizer is sqlglot's: it keeps the offsets of every token and knows `=>`, nested comments, dollar quoting and E''
escapes. (sqlparse reads a backslash before a quote and nested comments otherwise than DataFusion, so the text after
them would be misread.) Its keywords are switched off: an unquoted name is a word, and no statement is swallowed as a
"command".
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
"""Stands for the `$` of a parameter while sqlglot reads, which takes `$1,$2` for a quote with the tag `1,`."""


class TokenKind(Enum):
    """What a token is; comments and white space are no tokens."""

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

    `text` is the source too, but for a quoted name or a string its value: without quotes, escapes undone.
    """

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_symbol(self, text: str) -> bool:
        """Tell whether this is the given punctuation or operator."""
        return self.kind is TokenKind.SYMBOL and self.text == text

    def is_word(self, *words: str) -> bool:
        """Tell whether this is one of the given words (lower case), unquoted."""
        return self.kind is TokenKind.WORD and self.text.lower() in words


@lru_cache(maxsize=2)  # each step of planning looks at the same text
def tokenize(sql: str) -> tuple[Token, ...]:
    """Split SQL into tokens, in order; the text between two tokens is white space or comments.

    Raises:
        SqlError: a string, quoted name, dollar quote or comment is not closed; says at which line:column it starts.
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
    """Return `line:column` of an offset, both counted from 1, for messages."""
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
        self._core.comments = {"--": None, "/*": "*/"}  # sqlglot adds Jinja's to every dialect
        self._core.unescaped_sequences = {"\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t"}  # in E''

    def failed_at(self) -> int:
        """Return the offset of the token that was being read."""
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
    """Join `$` or `:` and the number or name touching it into one placeholder."""
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
    """Tell whether a value may come after a token; elsewhere `:` parts the ends of a slice, or a key and its value."""
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
    """Return where the parenthesis that opens at `start` is closed.

    Raises:
        SqlError: it is not closed.
    """
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0:
            return index
    raise SqlError("a ')' is missing")
