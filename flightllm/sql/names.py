"""Names in SQL text: a parser for names of tables, and the names of a query's columns without an alias.

Unquoted parts of a table's name fold to lower case, and quoted parts stay exact.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flightllm.common.names import TableName, quoted, table_name
from flightllm.errors import SqlError
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis, tokenize

PEOPLES_LABELS: Final = "system.labels"
"""Written in place of a column or a query, it means the labels that people gave."""
_KEY = re.compile(r"^key [0-9]+\.[0-9]+ ")


def identifier(token: Token) -> str | None:
    """Return the name that a token means, or None if the token is not an identifier."""
    if token.kind is TokenKind.QUOTED:
        return token.text
    return token.text.lower() if token.kind is TokenKind.WORD else None


def key_name(number: int, place: int, column: str) -> str:
    """Return a name for an outer column in a rewritten subquery: unique, and with the column's own name."""
    return f"key {number}.{place} {column}"


def column_name(name: str) -> str:
    """Return the own name of a column that `key_name` renamed; other names stay as they are."""
    return _KEY.sub("", name)


def with_name(tokens: Sequence[Token], index: int) -> str | None:
    """Return the name of the WITH query whose text the parenthesis at `index` opens, or None for other text."""
    at = index - 1
    while at > 0 and tokens[at].is_word("materialized", "not"):
        at -= 1
    if at < 1 or not tokens[at].is_word("as"):
        return None
    at -= 1
    if tokens[at].is_symbol(")"):
        while at > 0 and not tokens[at].is_symbol("("):
            at -= 1
        at -= 1
    return identifier(tokens[at]) if at >= 0 else None


def read_parts(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name that begins at the token `start`, as in `a.b.c`, and the index after the name.

    If no name begins there, the tuple of parts is empty.
    """
    parts: list[str] = []
    index = start
    while index < len(tokens) and (part := identifier(tokens[index])) is not None:
        parts.append(part)
        index += 1
        if index >= len(tokens) or not tokens[index].is_symbol("."):
            break
        index += 1
    return tuple(parts), index


def read_name(tokens: Sequence[Token], start: int) -> tuple[TableName, int]:
    """Return the table name that begins at the token `start`, and the index after the name.

    Raises:
        SqlError: no name begins there, or the name is in another catalog.
    """
    parts, after = read_parts(tokens, start)
    return table_name(parts), after


def read_column_names(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Return the names in a list such as `(a, "B")`, and the index after the list.

    Without a list, or where a query in parentheses follows, there are no names.

    Raises:
        SqlError: the list holds more than names.
    """
    if start + 1 >= len(tokens) or not tokens[start].is_symbol("(") or tokens[start + 1].is_symbol("("):
        return (), start
    if tokens[start + 1].is_word("select", "with", "values"):
        return (), start
    end = closing_parenthesis(tokens, start)
    names = [identifier(token) for token in tokens[start + 1 : end] if not token.is_symbol(",")]
    known = tuple(name for name in names if name is not None)
    if not names or len(known) < len(names) or len(names) * 2 - 1 != end - start - 1:
        raise SqlError("a list of column names was expected: (a, b, …)")
    return known, end + 1


def parse_name(text: str) -> TableName:
    """Return the table that SQL text such as `movies`, `x."Movies"` or `flightllm.public.movies` means.

    Raises:
        SqlError: the text is not a table name.
    """
    tokens = tokenize(text)
    name, after = read_name(tokens, 0)
    if after != len(tokens) or tokens[-1].is_symbol("."):
        raise SqlError(f"{text!r} is not a table name; quote a name with special characters: {quoted(text)}")
    return name


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT, with the name of its column.

    `name` is None for a plain column or an item with an alias, because these items already have names. If DataFusion
    gives the column a name in `kept`, the expression is a name after all, and the column keeps DataFusion's name.
    A dotted name can be that of a field; `field` is its last part, and DataFusion's name is `t.s[a]`. `column` is the
    name of a plain column: beside a cast of the column, DataFusion calls the column `t.a`.
    """

    name: str | None
    kept: frozenset[str] = frozenset()
    field: str = ""
    column: str = ""

    def named(self, name: str) -> str:
        """Return the name that the client sees for a column; `name` is DataFusion's name."""
        if self.field:
            last = name[len(name) - len(self.field) - 1 : -1]
            is_field = name.endswith(f"[{last}]") and last.casefold() == self.field.casefold()
            if is_field:
                return last
        if self.column:
            return name if name.casefold() == self.column.casefold() else self.column
        return name if self.name is None or name in self.kept else self.name


@dataclass(frozen=True, slots=True)
class OutputNames:
    """The items of a query's first SELECT; at most one item, such as a star, gives any number of columns."""

    items: tuple[Item, ...] = ()
    wide: int | None = None
    """The index of the item that gives any number of columns."""
    repeat: bool = False
    """Whether columns of different expressions can have the same name, as in PostgreSQL."""

    @property
    def fixed(self) -> bool:
        """Return whether each item is one column and some items have names."""
        return self.wide is None and any(item.name is not None or item.field for item in self.items)

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return the names that the client sees for columns; `names` are DataFusion's names.

        DataFusion's names stay if their number does not fit the items. They also stay for columns that would get the
        same new name although their old names differ, except with `repeat`.
        """
        more = len(names) - len(self.items)
        if not self.items or more < -1 or (more and self.wide is None):
            return list(names)
        items = list(self.items)
        if self.wide is not None and more:
            items[self.wide : self.wide + 1] = [Item(None)] * (more + 1)
        found = [item.named(name) for item, name in zip(items, names, strict=True)]
        while not self.repeat and (equal := _made_equal(found, names)):
            found = [name if new in equal else new for new, name in zip(found, names, strict=True)]
        return found


def _made_equal(found: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the new names of columns whose names differed."""
    before = dict[str, set[str]]()
    for new, name in zip(found, names, strict=True):
        before.setdefault(new, set()).add(name)
    return {new for new, others in before.items() if len(others) > 1}


NO_NAMES = OutputNames()
