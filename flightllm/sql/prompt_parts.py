"""Parser for a prompt that SQL joins with `concat`, `concat_ws` and `||`: its texts, and the values between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flightllm.sql.arguments import read_column, read_constant, split_arguments
from flightllm.sql.tokens import Token, TokenKind

_MOST_LEVELS = 32
JOINING = ("concat", "concat_ws")
"""Functions that join texts, as `||` does."""
_TEXT_TYPES = ("varchar", "text", "string")
_QUERIES = ("select", "with", "values", "table")
_PREFIXES = ("not", "distinct", "all", "any", "some", "interval", "select")
_VALUES = (
    TokenKind.WORD,
    TokenKind.QUOTED,
    TokenKind.STRING,
    TokenKind.LITERAL,
    TokenKind.NUMBER,
    TokenKind.PLACEHOLDER,
)
_MOST_INTEGER = 2**63


@dataclass(frozen=True, slots=True)
class PromptValue:
    """The tokens of a part that is not a literal; if `filled` is true, NULL becomes an empty text."""

    first: int
    last: int
    filled: bool


Part = str | PromptValue


def read_prompt_parts(
    tokens: Sequence[Token], first: int, last: int, closing: Mapping[int, int]
) -> tuple[Part, ...] | None:
    """Return the parts that the expression in `tokens[first:last]` joins, in their order.

    `concat('a ', b, 1)` → `'a '`, `b`, `'1'`. `closing` maps each opening bracket to its closing bracket.

    Return None if the expression does not join parts, or if another operator in it prevents a split. Also return None
    if no text in it has a letter: such texts only separate the values of a row.
    """
    joins = any(token.is_symbol("||") or token.is_word(*JOINING) for token in tokens[first:last])
    parts = _PromptPartReader(tokens, closing).joined(first, last, filled=False, levels=_MOST_LEVELS) if joins else None
    told = any(character.isalpha() for part in parts or () if isinstance(part, str) for character in part)
    return tuple(parts) if parts and told else None


@dataclass(frozen=True, slots=True)
class _PromptPartReader:
    """A reader for the expressions of one statement."""

    tokens: Sequence[Token]
    closing: Mapping[int, int]

    def joined(self, first: int, last: int, *, filled: bool, levels: int) -> list[Part] | None:
        """Return the parts of an expression that joins parts, else None.

        `filled` is true for an argument of `concat`. One NULL makes all of `a || b` NULL, so `a || b` is not split
        inside `concat`.
        """
        if levels == 0:
            return None
        if (inner := self._inside(first, last)) is not None:
            return self.joined(*inner, filled=filled, levels=levels - 1)
        if self._calls(first, last, "concat"):
            ranges = list(split_arguments(self.tokens, first + 2, last - 1, self.closing))
            return self._all_parts(ranges, filled=True, levels=levels) if all(map(self._is_plain, ranges)) else None
        if self._calls(first, last, "concat_ws"):
            return self._separated(first, last, levels)
        if (operands := self._operands(first, last)) is None:
            return None
        parts = self._all_parts(operands, filled=False, levels=levels)
        return None if filled and any(isinstance(part, PromptValue) for part in parts) else parts

    def _all_parts(self, ranges: Sequence[tuple[int, int]], *, filled: bool, levels: int) -> list[Part]:
        return [part for first, last in ranges for part in self._parts(first, last, filled=filled, levels=levels)]

    def _parts(self, first: int, last: int, *, filled: bool, levels: int) -> list[Part]:
        if filled and self.tokens[first].is_word("null") and last == first + 1:
            return []
        if (text := self._text(first, last)) is not None:
            return [text]
        joined = self.joined(first, last, filled=filled, levels=levels - 1)
        if joined is not None:
            return joined
        inner = self._inside(first, last)
        if inner is not None and read_column(self.tokens[inner[0] : inner[1]]) is not None:
            first, last = inner
        return [PromptValue(first, last, filled)]

    def _separated(self, first: int, last: int, levels: int) -> list[Part] | None:
        """Return the parts of `concat_ws('separator', a, b)`; a column that is NULL keeps its separator."""
        separator, *ranges = split_arguments(self.tokens, first + 2, last - 1, self.closing)
        between = self._text(*separator)
        if between is None or not ranges or not all(map(self._is_plain, ranges)):
            return None
        parts: list[Part] = []
        for one in ranges:
            following = self._parts(*one, filled=True, levels=levels)
            parts += [between, *following] if parts and following else following
        return parts

    def _text(self, first: int, last: int) -> str | None:
        """Return the text that a literal, or a literal cast to text, has in a concatenation, else None."""
        while True:
            if (inner := self._inside(first, last)) is not None:
                first, last = inner
            elif self._calls(first, last, "cast") and self._ends_with_type(last - 1, "as"):
                first, last = first + 2, last - 3
            elif last - first > 2 and self.tokens[last - 2].is_symbol("::") and self._ends_with_type(last):
                last -= 2
            else:
                break
        constant = read_constant(self.tokens[first:last])
        return None if constant is None else _written(constant.value)

    def _ends_with_type(self, last: int, before: str = "") -> bool:
        """Return whether the name of a text type ends at `last`, after the word `before`."""
        return self.tokens[last - 1].is_word(*_TEXT_TYPES) and (not before or self.tokens[last - 2].is_word(before))

    def _inside(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the range inside the parentheses around a whole expression, else None.

        The parentheses of a query or of a tuple do not count.
        """
        if not self._is_bracket(first, "(") or self.closing.get(first) != last - 1 or last - first < 3:
            return None
        ranges = list(split_arguments(self.tokens, first + 1, last - 1, self.closing))
        query = self.tokens[first + 1].is_word(*_QUERIES)
        return ranges[0] if len(ranges) == 1 and not query else None

    def _calls(self, first: int, last: int, name: str) -> bool:
        """Return whether the expression is one call of a function, with arguments."""
        if last - first < 4 or not self.tokens[first].is_word(name):
            return False
        return self._is_bracket(first + 1, "(") and self.closing.get(first + 1) == last - 1

    def _is_plain(self, argument: tuple[int, int]) -> bool:
        """Return whether an argument of `concat` is only an expression, without DISTINCT, a name or a star."""
        first, last = argument
        if first == last or self.tokens[first].is_word("distinct", "all") or self.tokens[last - 1].is_symbol("*"):
            return False
        return last - first < 2 or not self.tokens[first + 1].is_symbol("=>")

    def _operands(self, first: int, last: int) -> list[tuple[int, int]] | None:
        """Return the ranges between the `||` of an expression.

        Return None if the expression has no `||`, or has other operators next to them.
        """
        starts, index = [first], first
        while index < last:
            if index in self.closing:
                index = self.closing[index]
            elif self._begins_case(index):
                index = self._end_of_case(index, last)
            elif self.tokens[index].is_symbol("||"):
                starts.append(index + 1)
            index += 1
        ranges = list(zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True))
        return ranges if len(ranges) > 1 and all(self._is_operand(*one) for one in ranges) else None

    def _begins_case(self, index: int) -> bool:
        return self.tokens[index].is_word("case") and not (index and self.tokens[index - 1].is_symbol("."))

    def _end_of_case(self, index: int, last: int) -> int:
        """Return the index of the END for the CASE at `index`, or `last` if there is no END."""
        open_ = 0
        while index < last:
            if index in self.closing:
                index = self.closing[index]
            elif self._begins_case(index):
                open_ += 1
            elif self.tokens[index].is_word("end") and not self.tokens[index - 1].is_symbol("."):
                open_ -= 1
                if open_ == 0:
                    return index
            index += 1
        return last

    def _is_operand(self, first: int, last: int) -> bool:
        """Return whether all operators of an expression bind more tightly than `||`."""
        if first >= last:
            return False
        if read_constant(self.tokens[first:last]) is not None:
            return True
        index = self._after_value(first, last)
        while index < last:
            following = index + 1 < last
            if self._is_bracket(index, "(") or self._is_bracket(index, "["):
                index = self.closing[index] + 1
            elif following and self.tokens[index].is_symbol("."):
                index += 2 if self.tokens[index + 1].kind in {TokenKind.WORD, TokenKind.QUOTED} else last
            elif following and self.tokens[index].is_symbol("::"):
                index += 2 if self.tokens[index + 1].kind is TokenKind.WORD else last
            elif following and self.tokens[index].is_word("over") and self._is_bracket(index + 1, "("):
                index += 1
            else:
                return False
        return index == last

    def _after_value(self, first: int, last: int) -> int:
        """Return the index after the name, literal, brackets or CASE at the start of an operand.

        Return an index above `last` if the operand begins with another token.
        """
        token = self.tokens[first]
        if self._begins_case(first):
            return self._end_of_case(first, last) + 1
        if self._is_bracket(first, "(") or self._is_bracket(first, "["):
            return self.closing[first] + 1
        if token.is_word("date", "time", "timestamp") and first + 1 < last:
            return first + 1 + (self.tokens[first + 1].kind is TokenKind.STRING)
        return first + 1 if token.kind in _VALUES and not token.is_word(*_PREFIXES) else last + 1

    def _is_bracket(self, index: int, opening: str) -> bool:
        return index in self.closing and self.tokens[index].is_symbol(opening)


def _written(value: object) -> str | None:
    """Return the text that SQL casts a literal to, or None if Python would write another text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) and abs(value) < _MOST_INTEGER else None
