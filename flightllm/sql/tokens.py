"""Tokenizer of SQL with exact source offsets, by the lexical rules of DataFusion's generic dialect.

One regular expression reads the usual forms of tokens in native code; `generic_tokenizer` reads the others. So a text
of 1 MB takes a fraction of a second.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from sqlglot.tokenizer_core import Token as RawToken
from sqlglot.tokenizer_core import TokenType

from flightllm.common.stopping import CHECKED_TOKENS, check_wanted
from flightllm.errors import SqlError
from flightllm.sql.generic_tokenizer import MARK, GenericTokenizer

_PARAMETER = re.compile(r"(?<![\w$])\$(?=\d+(?![\w$]))")


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


@dataclass(slots=True, unsafe_hash=True)
class Token:
    """One token; `sql[start:end]` is its source. Nothing changes a token: a frozen class takes twice as long to make.

    For a quoted name or a string, `text` is the value, without quotes and escapes. For other tokens, it is the source.

    A long run of numbers in brackets, as in `[1, 2, …]`, is one token; its text has no spaces.
    """

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def is_run(self) -> bool:
        """Return whether this token is a long run of numbers with commas between them."""
        return self.kind is TokenKind.NUMBER and "," in self.text

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
        CancelledError: nobody waits for the statement any more.
    """
    tokens = _scan(sql)
    if (":" in sql or "$" in sql) and any(token.kind is TokenKind.SYMBOL and token.text in _JOINED for token in tokens):
        return tuple(_with_placeholders(tokens))
    return tuple(tokens)


def position(sql: str, offset: int) -> str:
    """Return the `line:column` of an offset for messages, both counted from 1."""
    column = offset - sql.rfind("\n", 0, offset)
    return f"{sql.count(chr(10), 0, offset) + 1}:{column}"


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
_SINGLE = re.escape("".join(sorted(GenericTokenizer.SINGLE_TOKENS)))
_INSIDE = re.escape("".join(sorted({*GenericTokenizer.SINGLE_TOKENS} - GenericTokenizer.VAR_SINGLE_TOKENS)))
_SYMBOLS = "|".join(map(re.escape, sorted(GenericTokenizer.KEYWORDS, key=len, reverse=True)))
_SKIPPED = r"(?:\s++|--[^\n]*+|/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/)*+"
_LONG_RUN = 64
_SIGNED = r"-?(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
_RUN = rf"{_SIGNED}(?:\s*+,\s*+{_SIGNED}){{{_LONG_RUN - 1},}}+"
"""Many numbers in a row, as in a vector. They are one token, so no later step goes through all of them."""
_LISTED = rf"(?<=\[){_RUN}(?=\s*+\])"
_AFTER_IN = rf"(?:(?<=\s[iI][nN] \()|(?<=\s[iI][nN]\()){_RUN}(?=\s*+\))"
_FORMS = (
    (TokenKind.NUMBER, f"{_LISTED}|{_AFTER_IN}"),
    (TokenKind.WORD, rf"(?![nNbBeExX]'|[uU]&')[^\s0-9{_SINGLE}][^\s{_INSIDE}]*+"),
    (TokenKind.NUMBER, r"[0-9]++(?:\.[0-9]++)?+(?=[\s,()\[\]{};:=<>+\-*/%|&^!~?]|\Z)"),
    (TokenKind.SYMBOL, rf"(?!/\*)(?:{_SYMBOLS}|[(),.;\[\]{{}}&^:\-=><%!|+/*~])"),
    (TokenKind.PLACEHOLDER, r"\?"),
    (TokenKind.PLACEHOLDER, rf"{MARK}[0-9]++(?!\w)"),
    (TokenKind.STRING, r"'(?:[^']++|'')*+'"),
    (TokenKind.QUOTED, r'"(?:[^"]++|"")*+"|`(?:[^`]++|``)*+`'),
)
"""The usual forms, as sqlglot reads them; a rare form matches no pattern here."""
_GROUPS = (None, *(kind for kind, _ in _FORMS), None)
_NUMBERS = 1
"""The group of a run of numbers."""
_VALUED = len(_FORMS) - 1
"""From this group on, a token is in quotes."""
_RARE = len(_FORMS) + 1
_USUAL = rf"{_SKIPPED}(?:{'|'.join(f'({form})' for _, form in _FORMS)}|(\S))?"
_GAP = re.compile(_SKIPPED)
_JOINED = (":", "$")


@lru_cache(maxsize=4)
def _pattern(*, marked: bool, pivots: bool) -> re.Pattern[str]:
    """Return the pattern for a text that has `MARK` itself as an ordinary character, or that can have a PIVOT.

    PIVOT makes a column of each value of its list, so the parts of its list are tokens of their own.
    """
    usual = _USUAL.replace(f"{MARK}[0-9]", f"(?!){MARK}[0-9]") if marked else _USUAL
    return re.compile(usual.replace(_AFTER_IN, "(?!)") if pivots else usual)


def _scan(sql: str) -> list[Token]:
    """Return the tokens of a text; `$` or `:` and the name after it are two tokens.

    Raises:
        SqlError: see `tokenize`.
    """
    rare = _RareForms(sql)
    tokens: list[Token] = []
    add, at = tokens.append, 0
    usual = _pattern(marked=MARK in sql, pivots="pivot" in sql.lower())
    while True:
        for found in usual.finditer(rare.marked, at):
            group = found.lastindex
            if group is None:  # the end of the text
                return tokens
            start, end = found.span(group)
            if group == _RARE or (kind := _GROUPS[group]) is None:
                at = rare.read(start, tokens)
                break
            text = sql[start:end]
            if group >= _VALUED:
                text = text[1:-1].replace(text[0] * 2, text[0])
            elif group == _NUMBERS:
                text = "".join(text.split())
            add(Token(kind, text, start, end))
            if not len(tokens) % CHECKED_TOKENS:
                check_wanted()


class _RareForms:
    """A reader of the tokens that the pattern leaves to sqlglot."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.marked = sql if MARK in sql else _PARAMETER.sub(MARK, sql)
        """The text with `MARK` for the `$` of each parameter; the offsets are the same."""
        self._tokenizer: GenericTokenizer | None = None

    def read(self, at: int, tokens: list[Token]) -> int:
        """Add the token at an offset, and those whose form depends on it; return the offset after them."""
        if self._tokenizer is None:
            self._tokenizer = GenericTokenizer()
            self._tokenizer.begin(self.marked)
        parameter = False
        while at < len(self._sql):
            try:
                raw, after = self._tokenizer.read(at, after_parameter=parameter)
            except Exception as error:  # sqlglot raises errors of several kinds at the end of a text
                said = f"unterminated or malformed quoted text at {position(self._sql, at)}"
                raise SqlError(f"{said}: {self._sql[at : at + 20]!r}") from error
            if raw is not None:
                tokens.append(self._token(raw))
                parameter = raw.token_type is TokenType.PARAMETER
            if not parameter:
                return after
            at = self._after_gap(after)
        return at

    def _after_gap(self, at: int) -> int:
        found = _GAP.match(self.marked, at)
        return found.end() if found else at

    def _token(self, raw: RawToken) -> Token:
        kind = _KINDS.get(raw.token_type, TokenKind.SYMBOL)
        end = raw.end + 1
        if kind is not TokenKind.STRING and kind is not TokenKind.QUOTED:
            return Token(kind, self._sql[raw.start : end], raw.start, end)
        text = raw.text if MARK in self._sql else raw.text.replace(MARK, "$")
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
