"""Read a text for the rules, together with the session of its statement."""

from flightllm.dialect.place import NameContext
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind


class Source(ParsedText):
    """A text after one set of edits, with the session of its statement."""

    def __init__(self, text: str | ParsedText, place: NameContext) -> None:
        parsed = ParsedText.of(text)
        super().__init__(parsed.sql)
        self.tokens = parsed.tokens
        self.place = place

    def begins_expression(self, index: int) -> bool:
        """Return whether an expression begins at a name; a table, its alias, or the name of a CTE is not one."""
        before = self.tokens[index - 1] if index else None
        if before is None or self.scopes.names_table[index]:
            return False
        if before.kind is TokenKind.SYMBOL:
            return before.text not in {".", ")", "]"}
        return before.is_word(*EXPRESSION_FOLLOWS)

    def called(self, index: int) -> str | None:
        """Return the lower-case name of the function that an expression calls at a token, or None.

        The result is also None for a function of the server's own folders: such a name means only that function.
        """
        token = self.tokens[index]
        if token.kind is not TokenKind.WORD or not self.is_symbol(index + 1, "(") or index + 1 not in self.closing:
            return None
        name = token.text.lower()
        return name if name not in self.place.own_functions and self.begins_expression(index) else None
