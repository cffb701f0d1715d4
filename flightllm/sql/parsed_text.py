"""A SQL text with its tokens and their properties; each property is computed at its first use."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flightllm.common.cached import cached_property
from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.names import identifier
from flightllm.sql.scopes import Scopes, read_scopes
from flightllm.sql.tokens import Token, TokenKind, tokenize

_ENDS_ITEMS = (
    *("from", *ENDS_FROM),
    *("minus", "into", "lateral"),
)
_ENDS_ITEMS_BY = ("sort", "cluster", "distribute")
"""Words that end the items before BY; without it they are names."""
_NO_EXPRESSION = ("from", "join", "as", "union", "except", "intersect", "with")
"""Words before the parenthesis of a query outside expressions."""
_ARRAYS = frozenset({"array", "make_array", "string_to_array", "regexp_split_to_array", "regexp_match"})
"""Words with which a text can make an array, beside the functions `array_…`."""


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT: the index of its word, the token ranges of its items, and the index of the token after the items."""

    start: int
    items: tuple[tuple[int, int], ...]
    end: int


_WORD = re.compile(r"\w+")


def mentions(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, with those in quoted names, literals and comments.

    The empty word is always among them, for names without a word.
    """
    return frozenset([*_WORD.findall(text.lower()), ""])


class ParsedText:
    """One SQL text that is split into tokens at most once."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def replaced(self, sql: str) -> "ParsedText":
        """Return the text that a step made of this one, or this object if the step changed nothing."""
        return self if sql == self.sql else ParsedText(sql)

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """Return the tokens.

        Raises:
            SqlError: the text cannot be split into tokens; see `tokenize`.
        """
        return tokenize(self.sql)

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the unquoted words, in lower case."""
        return frozenset(token.text.lower() for token in self.tokens if token.kind is TokenKind.WORD)

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the words and the quoted names, in lower case."""
        return frozenset(name.lower() for name in map(identifier, self.tokens) if name is not None)

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Return all words in lower case; see `mentions`. A table that the text reads has its words among these."""
        return mentions(self.sql)

    def makes_arrays(self) -> bool:
        """Return whether the text can make an array of other values."""
        return "[" in self.sql or any(word in _ARRAYS or word.startswith("array_") for word in self.mentions)

    @cached_property
    def marks(self) -> frozenset[str]:
        """Return the symbols, the pairs of neighboring symbols (`((`), and the prefixes of literals (`n'`)."""
        return frozenset(self._marks())

    def _marks(self) -> Iterator[str]:
        before = ""
        for token in self.tokens:
            mark = token.text if token.kind is TokenKind.SYMBOL else ""
            if token.kind is TokenKind.LITERAL:
                yield self.sql[token.start : token.start + 2].lower()
            elif mark:
                yield mark
                if before:
                    yield before + mark
            before = mark

    @cached_property
    def parameters(self) -> Mapping[int, int]:
        """Return the number of each parameter, from 1 on, by the index of its token."""
        places = (index for index, token in enumerate(self.tokens) if token.kind is TokenKind.PLACEHOLDER)
        return {index: number for number, index in enumerate(places, 1)}

    @cached_property
    def scopes(self) -> Scopes:
        """Return the tables that are in scope at each token."""
        return read_scopes(self.sql, self.tokens)

    @property
    def closing(self) -> Mapping[int, int]:
        """Return the index of the closing bracket for the index of each opening bracket."""
        return self.scopes.closing

    def is_word(self, index: int, *words: str) -> bool:
        """Return whether one of some words is at an index; the index can be out of range."""
        return 0 <= index < len(self.tokens) and self.tokens[index].is_word(*words)

    def is_symbol(self, index: int, text: str) -> bool:
        """Return whether a symbol is at an index; the index can be out of range."""
        return 0 <= index < len(self.tokens) and self.tokens[index].is_symbol(text)

    def text(self, first: int, last: int) -> str:
        """Return the text of a token range."""
        return self.sql[self.tokens[first].start : self.tokens[last - 1].end]

    @cached_property
    def selects(self) -> tuple[Select, ...]:
        """Return the SELECTs in the order of the text."""
        if "select" not in self.words:
            return ()
        starts = (i for i, t in enumerate(self.tokens) if t.is_word("select") and not self.is_symbol(i - 1, "."))
        return tuple(map(self._select, starts))

    def _select(self, start: int) -> Select:
        first = index = self.first_item(start)
        items: list[tuple[int, int]] = []
        while index < len(self.tokens):
            token = self.tokens[index]
            if self.closing.get(index):
                index = self.closing[index] + 1
                continue
            named = self.is_symbol(index - 1, ".") or self.is_word(index - 1, "as", "within")
            ends = token.is_word(*_ENDS_ITEMS) or (token.is_word(*_ENDS_ITEMS_BY) and self.is_word(index + 1, "by"))
            distinct = token.is_word("from") and self.is_word(index - 1, "distinct") and index - 1 > first
            if (
                token.is_symbol(")")
                or token.is_symbol(";")
                or token.is_symbol("|>")
                or (ends and not (named or distinct))
            ):
                break
            if token.is_symbol(","):
                items.append((first, index))
                first = index + 1
            index += 1
        return Select(start, tuple((a, b) for a, b in (*items, (first, index)) if a < b), index)

    def has_leading_from(self) -> bool:
        """Return whether the text has a FROM that does not follow the items of a SELECT."""
        ends = {select.end for select in self.selects}
        return any(token.is_word("from") and index not in ends for index, token in enumerate(self.tokens))

    def has_subquery(self) -> bool:
        """Return whether a text can have a subquery in an expression or after LATERAL."""
        return any(
            token.is_word("select", "values", "with", "table")
            and self.is_symbol(index - 1, "(")
            and index > 1
            and not self.tokens[index - 2].is_word(*_NO_EXPRESSION)
            for index, token in enumerate(self.tokens)
        )

    def has_similar_items(self) -> bool:
        """Return whether two items of a SELECT end in the same token, or a SELECT has a star among several items.

        Only such items can give two columns of the same name.
        """
        return any(self._are_similar(select.items) for select in self.selects if len(select.items) > 1)

    def _are_similar(self, items: Sequence[tuple[int, int]]) -> bool:
        last = [self.tokens[end - 1] for _, end in items]
        names = {identifier(token) or token.text for token in last}
        return len(names) < len(items) or any(token.is_symbol("*") for token in last)

    def first_item(self, select: int) -> int:
        """Return the index of a SELECT's first item, after DISTINCT, ALL or DISTINCT ON (…)."""
        index = select + 1
        while self.is_word(index, "distinct", "all"):
            index += 1
        if self.is_word(index, "on") and index + 1 in self.closing:
            index = self.closing[index + 1] + 1
        return index

    def ends_distinct_on(self, index: int) -> bool:
        """Return whether a token closes `SELECT DISTINCT ON (…)`, after which an expression begins."""
        if "distinct" not in self.words or not self.is_symbol(index, ")"):  # scopes take a pass over all tokens
            return False
        opening = self.scopes.opening.get(index, 0)
        return self.is_word(opening - 1, "on") and self.is_word(opening - 2, "distinct")

    def start_of_query(self, index: int) -> int:
        """Return the index of the first token of the query around a token."""
        opening = self.scopes.around[index]
        return 0 if opening is None else opening + 1

    def end_of_query(self, index: int) -> int:
        """Return the index after the last token of the query around a token."""
        opening = self.scopes.around[index]
        end = len(self.tokens) if opening is None else self.closing[opening]
        while end > index and self.is_symbol(end - 1, ";"):
            end -= 1
        return end
