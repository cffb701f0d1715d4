"""Cursor over the tokens of a statement that only this server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flightllm.common.names import TableName
from flightllm.errors import SqlError
from flightllm.sql.names import identifier, read_name, read_parts
from flightllm.sql.tokens import Token, TokenKind


class Cursor:
    """A position among tokens; each read moves it forward."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self.tokens = tokens
        self.at = at

    def take(self, *words: str) -> bool:
        """Read some words if they follow, and return whether they followed."""
        following = self.tokens[self.at : self.at + len(words)]
        found = len(following) == len(words) and all(t.is_word(w) for t, w in zip(following, words, strict=True))
        self.at += len(words) * found
        return found

    def symbol(self, text: str) -> bool:
        """Read a symbol if it follows, and return whether it followed."""
        found = self.at < len(self.tokens) and self.tokens[self.at].is_symbol(text)
        self.at += found
        return found

    def need(self, usage: str, *words: str) -> None:
        """Read words that must follow; raises `SqlError` if they do not."""
        for word in words:
            if not self.take(word):
                ended = self.at >= len(self.tokens)
                found = "the end of the statement" if ended else repr(self.tokens[self.at].text[:40])
                raise SqlError(f"{' '.join(words).upper()} was expected: {usage}; found {found}")

    def next(self) -> Token | None:
        """Read a token; return None after the last token."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        self.at += 1
        return token

    def table(self) -> TableName:
        """Read the name of a table; raises `SqlError` if no valid name follows."""
        table, self.at = read_name(self.tokens, self.at)
        return table

    def name(self, what: str, usage: str) -> str:
        """Read the name of an object.

        Raises:
            SqlError: there is no name, or the name has several parts.
        """
        parts, self.at = read_parts(self.tokens, self.at)
        if len(parts) != 1:
            raise SqlError(f"{what} must have a name of one part: {usage}")
        return parts[0]

    def options(self, example: str) -> Mapping[str, Token]:
        """Read `(name value, …)`, with or without `=` between name and value, and with or without quotes.

        Raises:
            SqlError: the list is malformed, or an option occurs twice.
        """
        found: dict[str, Token] = {}
        opening = self.next()
        if opening is None or not opening.is_symbol("("):
            raise SqlError(f"OPTIONS needs a list: {example}")
        while True:
            name, value = self.next(), self.next()
            if value is not None and value.is_symbol("="):
                value = self.next()
            key = _option(name)
            if key is None or value is None or value.kind not in {TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD}:
                raise SqlError(f"an option is a name and a value: {example}")
            if key in found:
                raise SqlError(f"the option {key} is given twice")
            found[key] = value
            after = self.next()
            if after is not None and after.is_symbol(")"):
                return found
            if after is None or not after.is_symbol(","):
                raise SqlError(f"expected , or ) after the option {key}")

    def end(self, usage: str) -> None:
        """Check that nothing follows; raises `SqlError` if a token follows."""
        if self.at < len(self.tokens):
            raise SqlError(f"{self.tokens[self.at].text[:40]!r} was not expected: {usage}")


def _option(name: Token | None) -> str | None:
    """Return the name of an option; it can be in single quotes, as in other systems."""
    if name is None or name.kind is not TokenKind.STRING:
        return None if name is None else identifier(name)
    return name.text.lower()
