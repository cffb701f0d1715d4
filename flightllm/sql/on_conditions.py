"""Classifier of function calls in ON: the first condition, a later condition, or a part of an expression."""

from typing import Final

from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.source_tokens import SourceTokens

JOIN_KINDS: Final = ("inner", "left", "right", "full", "outer", "semi", "anti", "cross", "natural", "asof")
"""Words between two tables that give the kind of join."""
_LOGIC: Final = ("on", "and", "or", "xor", "not")
"""Words that a condition can follow."""
_AFTER_ON: Final = (
    *ENDS_FROM,
    *("minus", "on", "join", "global", "lateral", "tablesample", *JOIN_KINDS),
)
"""Words that end the condition of ON."""
_CLAUSES: Final = ("select", "from", "where", "group", "having", "order", "qualify", "with", "values", "using", "join")


class OnConditions:
    """A classifier that finds where conditions of ON begin and end in one statement; it names tokens by their indexes.

    Example: the results of the methods for a call `f(…)` in four conditions.

    | condition               | `is_first` | `is_later` | `is_joined_by_and` |
    |-------------------------|------------|------------|--------------------|
    | ON f(…) AND a = 1       | yes        |            | yes                |
    | ON f(…) OR a = 1        | yes        |            | no                 |
    | ON a = 1 AND (f(…))     | no         | yes        |                    |
    | ON a = f(…)             | no         | no         |                    |
    """

    def __init__(self, source: SourceTokens) -> None:
        self._source = source
        self._tokens = source.tokens

    def is_first(self, call: int) -> bool:
        """Return whether a call comes directly after ON."""
        return self._is_on(call - 1)

    def is_later(self, call: int) -> bool:
        """Return whether a call that is not first in ON is a whole condition.

        A call in a larger condition, such as `a = f(…)`, is not a whole condition.
        """
        before, after = call - 1, self._source.closing.get(call + 1, call) + 1
        # Look through parentheses that hold nothing but the call.
        while self._is_group(before) and self._source.closing.get(before) == after:
            before, after = before - 1, after + 1
        begins = self._tokens[before].is_word(*_LOGIC) or self._is_group(before)
        return begins and (self.ends_at(after) or self._tokens[after].is_word(*_LOGIC)) and self._is_in_on(before)

    def is_joined_by_and(self, at: int) -> bool:
        """Return whether ON ends at a token, or goes on with AND and has no OR beside it.

        An OR in parentheses, or between CASE and END, is a part of one condition.
        """
        if self.ends_at(at):
            return True
        if not self._tokens[at].is_word("and"):
            return False
        open_cases = 0
        while not self.ends_at(at):
            token = self._tokens[at]
            open_cases += token.is_word("case") - token.is_word("end")
            if not open_cases and token.is_word("or", "xor"):
                return False
            at = self._source.after(at)
        return True

    def ends_at(self, at: int) -> bool:
        """Return whether the condition of an ON ends before a token."""
        if at >= len(self._tokens) or any(map(self._tokens[at].is_symbol, (")", ",", ";"))):
            return True
        is_called = at + 1 < len(self._tokens) and self._tokens[at + 1].is_symbol("(")
        if is_called and self._tokens[at].is_word("left", "right"):
            return False  # the functions left(…) and right(…), not joins
        return self._tokens[at].is_word(*_AFTER_ON) and not self._tokens[at - 1].is_symbol(".")

    def _is_on(self, at: int) -> bool:
        """Return whether a token is the ON of a join, not the ON of SELECT DISTINCT ON."""
        return self._tokens[at].is_word("on") and not self._tokens[at - 1].is_word("distinct")

    def _is_in_on(self, at: int) -> bool:
        """Return whether a token is in the clause ON; grouping parentheses do not matter."""
        while at >= 0 and not self._is_on(at):
            is_opened = at in self._source.closing and not self._is_group(at)
            if is_opened or (self._tokens[at].is_word(*_CLAUSES) and not self._tokens[at - 1].is_word("distinct")):
                return False
            at = self._source.before(at)
        return at >= 0

    def _is_group(self, at: int) -> bool:
        """Return whether a token is a parenthesis around a condition, not around the arguments of a call."""
        before = self._tokens[at - 1]
        return self._tokens[at].is_symbol("(") and (before.is_symbol("(") or before.is_word(*_LOGIC))
