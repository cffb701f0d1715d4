"""Addition of NULLS LAST to ORDER BY … DESC over answers, if the query does not say where NULL goes.

`ORDER BY ai_score('…', text) DESC LIMIT 3`  →  `ORDER BY ai_score('…', text) DESC NULLS LAST LIMIT 3`

By SQL's rule, NULL comes first; other keys keep this rule. An answer is NULL if its row gives no input or if the model
failed, so these rows must not rank best. An alias or a position of a call in the same SELECT counts as the call.
So does a column that a subquery or a WITH query in the FROM of this SELECT takes from a call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from flightllm.sql.names import identifier
from flightllm.sql.scopes import Scope, Scopes, Table
from flightllm.sql.tokens import Token, TokenKind

ADDED = " NULLS LAST"
_ENDS = ("limit", "offset", "fetch", "for", "union", "intersect", "except", "rows", "range", "groups")
_ENDS_OF_LIST = ("from", "union", "intersect", "except", "where", "order", "limit")
_Item = tuple[int, int]
"""The token range of an item in a SELECT list."""


def ends_of_answers(tokens: Sequence[Token], scopes: Scopes, is_call: Callable[[int], bool]) -> frozenset[int]:
    """Return the indexes of each DESC that `ADDED` must follow.

    `is_call` tells whether an AI call begins at an index.
    """
    found: set[int] = set()
    for place in range(len(tokens) - 1):
        if tokens[place].is_word("order") and tokens[place + 1].is_word("by"):
            for first, last in _parts(tokens, scopes.closing, place + 2, len(tokens), _ENDS):
                if last - first > 1 and tokens[last - 1].is_word("desc"):
                    key = (first, last - 1)
                    if any(map(is_call, range(*key))) or _Names(tokens, scopes, is_call).key_is_answer(place, key):
                        found.add(last - 1)
    return frozenset(found)


class _Names:
    """A reader that follows a name through subqueries and WITH queries to the expression behind the name."""

    def __init__(self, tokens: Sequence[Token], scopes: Scopes, is_call: Callable[[int], bool]) -> None:
        self._tokens = tokens
        self._scopes = scopes
        self._is_call = is_call

    def key_is_answer(self, order: int, key: _Item) -> bool:
        """Return whether a key, as in `s`, `q.s` or `2`, names a call for the ORDER BY at the token `order`."""
        opening = self._scopes.around[order]
        first = 0 if opening is None else opening + 1
        text = self._tokens[key[0]].text
        if key[1] - key[0] == 1 and text.isdigit():
            return self._position_is_answer(first, order, int(text) - 1)
        if (column := self._column(*key)) is None:
            return False
        qualifier, name = column
        own = None if qualifier else self._output_is_answer(first, order, name)
        return self._column_is_answer(self._scopes.of[order], qualifier, name) if own is None else own

    def _column_is_answer(self, scope: Scope, qualifier: str | None, name: str) -> bool:
        """Return whether a column of a SELECT's FROM comes from a call. A table's own column does not."""
        tables = [table for table in scope.tables if qualifier in (None, table.alias)]
        return any(self._table_gives(table, name) for table in tables)

    def _table_gives(self, table: Table, name: str) -> bool:
        common = self._scopes.common_table(table.parts, table.first)
        if table.subquery is not None:
            opening, end = table.subquery
        elif common is not None:
            opening, end = common.opening, common.end
        else:
            return False
        while self._tokens[opening + 1].is_symbol("("):
            opening += 1
        listed = self._listed(table.columns) or self._listed(common.columns if common else None)
        if not listed:
            return bool(self._output_is_answer(opening + 1, end, name))
        return name in listed and self._position_is_answer(opening + 1, end, listed.index(name))

    def _listed(self, brackets: tuple[int, int] | None) -> list[str | None]:
        names = self._tokens[brackets[0] + 1 : brackets[1]] if brackets else ()
        return [identifier(token) for token in names if not token.is_symbol(",")]

    def _output_is_answer(self, first: int, end: int, name: str) -> bool | None:
        """Return whether the column `name` of the query in a token range is a call, or None if no item has the name."""
        selects = self._selects(first, end)
        if not selects:
            return None
        for position, item in enumerate(self._items(selects[0], end)):
            if self._name(*item) == name:
                return self._is_answer(selects[0], item) or self._position_is_answer(first, end, position)
        scope = self._scopes.of[selects[0]]
        for start, last in self._items(selects[0], end):
            if last > start and self._tokens[last - 1].is_symbol("*") and last - start in {1, 3}:
                qualifier = identifier(self._tokens[start]) if last - start > 1 else None
                if self._column_is_answer(scope, qualifier, name):
                    return True
        return None

    def _position_is_answer(self, first: int, end: int, position: int) -> bool:
        """Return whether a column of a query, counted from 0, is a call in one of the SELECTs that UNION joins."""
        for select in self._selects(first, end):
            items = self._items(select, end)
            starred = any(self._tokens[b - 1].is_symbol("*") and b - a in {1, 3} for a, b in items[: position + 1])
            if 0 <= position < len(items) and not starred and self._is_answer(select, items[position]):
                return True
        return False

    def _is_answer(self, select: int, item: _Item) -> bool:
        """Return whether an item has a call, or is a column that comes from a call."""
        if any(map(self._is_call, range(*item))):
            return True
        first, end = item
        if end - first > 2 and self._tokens[end - 2].is_word("as"):
            end -= 2
        elif end - first in {2, 4}:  # s best, q.s best
            end -= 1
        column = self._column(first, end)
        return column is not None and self._column_is_answer(self._scopes.of[select], *column)

    def _selects(self, first: int, end: int) -> list[int]:
        """Return the indexes of SELECT in a token range, outside brackets."""
        found, place = [], first
        while place < end:
            if self._tokens[place].is_word("select"):
                found.append(place)
            place = self._scopes.closing.get(place, place) + 1
        return found

    def _items(self, select: int, end: int) -> list[_Item]:
        first = select + 1
        if first < end and self._tokens[first].is_word("distinct", "all"):
            first += 1
            if first < end and self._tokens[first].is_word("on"):
                first = self._scopes.closing.get(first + 1, first) + 1
        return list(_parts(self._tokens, self._scopes.closing, first, end, _ENDS_OF_LIST))

    def _column(self, first: int, end: int) -> tuple[str | None, str] | None:
        """Return the table and the name of a column in a token range, or None for another expression."""
        name = identifier(self._tokens[end - 1])
        if name is None or end - first not in {1, 3}:
            return None
        if end - first == 1:
            return None, name
        qualifier = identifier(self._tokens[first])
        return (qualifier, name) if qualifier and self._tokens[first + 1].is_symbol(".") else None

    def _name(self, first: int, end: int) -> str | None:
        """Return the name of an item: its alias, or the name of its column."""
        if end <= first:
            return None
        if (column := self._column(first, end)) is not None:
            return column[1]
        before = self._tokens[end - 2]
        aliased = end - first > 1 and (before.kind is not TokenKind.SYMBOL or before.text in {")", "]"})
        return identifier(self._tokens[end - 1]) if aliased else None


def _parts(
    tokens: Sequence[Token], closing: Mapping[int, int], first: int, end: int, words: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield the parts between commas outside brackets, up to one of `words` or a closing bracket."""
    place = first
    while place < end:
        token = tokens[place]
        if token.is_word(*words) or (token.kind is TokenKind.SYMBOL and token.text in {")", "]", ";"}):
            break
        if token.is_symbol(","):
            yield first, place
            first = place + 1
        place = closing.get(place, place) + 1
    yield first, min(place, end)
