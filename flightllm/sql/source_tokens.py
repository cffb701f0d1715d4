"""The tokens of one statement together with their source text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flightllm.errors import AICallError
from flightllm.sql.tokens import Token, TokenKind, position


class TokenRange(NamedTuple):
    """The tokens from `start` up to `end`; `end` is excluded."""

    start: int
    end: int

    def __bool__(self) -> bool:
        """Return whether there are any tokens."""
        return self.start < self.end


class SourceTokens:
    """Tokens, their text, and their matching brackets; the methods name tokens by their indexes.

    Example: the tokens of `f(a, g(b)) c`. A whole bracket counts as one step.

    | index    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |
    |----------|---|---|---|---|---|---|---|---|---|---|
    | token    | f | ( | a | , | g | ( | b | ) | ) | c |
    | `before` |-1 | 0 | 1 | 2 | 3 | 4 | 5 | 4 | 0 | 8 |
    """

    def __init__(self, sql: str, tokens: Sequence[Token], closing: Mapping[int, int]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.closing = closing
        """The closing bracket of each opening bracket."""
        self.opening = {end: start for start, end in closing.items()}

    def before(self, at: int) -> int:
        """Return the token before a token, or before the bracket that closes there; -1 if there is no such token."""
        return self.opening.get(at, at) - 1

    def bracket_around(self, at: int) -> int | None:
        """Return the innermost bracket that opens before a token and does not close before it, or None."""
        at -= 1
        while at >= 0 and at not in self.closing:
            at = self.before(at)
        return at if at >= 0 else None

    def calls(self, span: TokenRange) -> Iterator[int]:
        """Yield the names of called functions: the names before an opening parenthesis."""
        for at in range(*span):
            if self.tokens[at + 1].is_symbol("(") and self.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}:
                yield at

    def text(self, span: TokenRange) -> str:
        """Return the text of one or more tokens, with the white space and comments between the tokens."""
        return self.sql[self.tokens[span.start].start : self.tokens[span.end - 1].end]

    def error(self, at: int, message: str) -> AICallError:
        """Return an error about a token; `message` continues the sentence after the token and its position."""
        token = self.tokens[at]
        return AICallError(f"{token.text} at {position(self.sql, token.start)} {message}")
