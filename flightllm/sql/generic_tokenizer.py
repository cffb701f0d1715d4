"""sqlglot's tokenizer with the lexical rules of DataFusion's generic dialect, for the rare forms of tokens.

sqlglot keeps the offsets of each token, and it reads nested comments, dollar quoting and E'' escapes. The library
sqlparse does not fit: it differs from DataFusion in nested comments and in a backslash before a quote, and would
misread the text after them.
"""

# ruff: noqa: SLF001 - sqlglot has no public function that reads one token

from typing import ClassVar

from sqlglot.tokenizer_core import Token as RawToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

MARK = "\ufdd0"
"""The replacement for the `$` of a parameter in sqlglot, which would read `$1,$2` as a quote with the tag `1,`."""
_DIGITS = "0123456789"
_PARAMETER = RawToken(TokenType.PARAMETER, "$")


class GenericTokenizer(Tokenizer):
    """sqlglot's tokenizer with the quoting rules of sqlparser-rs's generic dialect and no keywords.

    Without keywords, an unquoted name is a word, and sqlglot does not turn a whole statement into one "command" token.
    """

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
    SINGLE_TOKENS: ClassVar = {**Tokenizer.SINGLE_TOKENS, "$": TokenType.HEREDOC_STRING, MARK: TokenType.PARAMETER}
    VAR_SINGLE_TOKENS: ClassVar = {"$", "@", "#"}
    COMMANDS: ClassVar = set()
    TOKENS_PRECEDING_HINT: ClassVar = set()
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY = True

    def __init__(self) -> None:
        super().__init__()
        self._core.comments = {"--": None, "/*": "*/"}  # sqlglot adds Jinja's comments to every dialect
        self._core.unescaped_sequences = {"\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t"}  # in E''

    def begin(self, sql: str) -> None:
        """Take the text that `read` reads."""
        self._core.reset()
        self._core.sql, self._core.size = sql, len(sql)

    def read(self, start: int, *, after_parameter: bool) -> tuple[RawToken | None, int]:
        """Return the token that begins at an offset, or None for a comment, and the offset after it.

        `after_parameter` says that the token before is of the type PARAMETER: then a number has no fraction. The offset
        must not be at white space. Each call does what one step of sqlglot's own loop `_scan` does.

        Raises:
            Exception: sqlglot cannot read the token.
        """
        core = self._core
        core.tokens = [_PARAMETER] if after_parameter else []
        core._comments, core._line, core._prev_token_line, core._char = [], 1, -1, ""
        core._start = core._current = start
        core._advance(1)
        if core._char in _DIGITS:
            core._scan_number()
        elif core._char in core.identifiers:
            core._scan_identifier(core.identifiers[core._char])
        else:
            core._scan_keywords()
        found = core.tokens[int(after_parameter) :]
        return (found[0] if found else None), core._current
