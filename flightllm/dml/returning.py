"""RETURNING: a second query over the rows as they are after the change, or before it for DELETE."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flightllm.catalog.entries import Entry
from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.row_change import RowChange
from flightllm.sql.row_changes import split_list, with_alias
from flightllm.sql.scopes import Scopes, Table, read_scopes
from flightllm.sql.tokens import Token, TokenKind, tokenize

RETURNED = "search.public.changed"
"""The query's name for the changed rows."""
MERGE_ACTION = "merge action"
"""The column with the action of MERGE for each row: INSERT, UPDATE or DELETE."""


@dataclass(frozen=True, slots=True)
class Returning:
    """The query's text, and the expressions over other tables that the first query must compute for it."""

    sql: str
    extras: tuple[str, ...]
    shown: Mapping[str, str]
    """The name to show for each column that the query renames, because column names in a query must be unique."""


ColumnsOf = Callable[[str], Sequence[str] | None]
"""Returns the columns of an item of FROM, or None if they are unknown."""


def returning(change: RowChange, entry: Entry, source: Mapping[str, Sequence[str]], columns_of: ColumnsOf) -> Returning:
    """Return the query of RETURNING. `source` has the columns of the other tables, by table name.

    Raises:
        SqlError: an item is empty, a column is ambiguous, or a star names a table that the statement does not have.
    """
    return _ReturningReader(change, entry, source, columns_of).read()


class _ReturningReader:
    def __init__(
        self, change: RowChange, entry: Entry, source: Mapping[str, Sequence[str]], columns_of: ColumnsOf
    ) -> None:
        self._change = change
        self._entry = entry
        self._source = source
        self._columns_of = columns_of
        self._subqueries: _Subqueries
        self._extras: list[str] = []
        self._names: list[str] = []
        self._shown: dict[str, str] = {}
        self._written: set[str] = set()
        """The expressions so far; a second one of the same text needs a name."""

    def read(self) -> Returning:
        text = self._change.returning
        text = with_alias(tokenize(text), text, self._entry.name, self._change.alias)
        self._subqueries = _Subqueries(text, self._columns_of)
        items = [item for part in split_list(tokenize(text)) for item in self._item(part, text)]
        alias = quoted(self._change.alias)
        return Returning(f"SELECT {', '.join(items)} FROM {RETURNED} AS {alias}", tuple(self._extras), self._shown)

    def _item(self, tokens: Sequence[Token], text: str) -> list[str]:
        """Return the query's items for one item of the list. A star becomes several columns."""
        if not tokens:
            raise SqlError("RETURNING has an empty item: write RETURNING * or expressions between commas")
        if len(tokens) == 1 and tokens[0].is_symbol("*"):
            parts = (self._all_others, self._own) if self._change.merged else (self._own, self._all_others)
            return [item for part in parts for item in part()]
        if len(tokens) == 3 and tokens[1].is_symbol(".") and tokens[2].is_symbol("*"):
            if identifier(tokens[0]) == self._change.alias:
                return self._own()
            table = identifier(tokens[0]) or ""
            if table not in self._source:
                known = ", ".join([self._change.alias, *self._source])
                raise SqlError(f"RETURNING {table}.*: the statement has no table {table}; its tables are {known}")
            return self._others(table)
        if len(tokens) > 2 and tokens[-2].is_word("as") and (name := identifier(tokens[-1])) is not None:
            return [f"{self._replaced(tokens[:-2], text)} AS {self._named(name)}"]
        return [self._expression(tokens, text)]

    def _own(self) -> list[str]:
        alias = quoted(self._change.alias)
        return [f"{alias}.{quoted(name)} AS {self._named(name)}" for name in self._entry.schema.names]

    def _all_others(self) -> list[str]:
        return [item for table in self._source for item in self._others(table)]

    def _others(self, table: str) -> list[str]:
        return [self._extra(f"{quoted(table)}.{quoted(name)}", name) for name in self._source[table]]

    def _named(self, name: str) -> str:
        """Return a unique alias for a column, and note its name to show if the alias differs."""
        unique = name if name not in self._names else f"{name} {len(self._names)}"
        self._names.append(name)
        if unique != name:
            self._shown[unique] = name
        return quoted(unique)

    def _extra(self, sql: str, name: str | None = None) -> str:
        """Have the first query compute an expression; return the column of the second query that holds it."""
        if sql not in self._extras:
            self._extras.append(sql)
        column = f"{quoted(self._change.alias)}.extra{self._extras.index(sql)}"
        return column if name is None else f"{column} AS {self._named(name)}"

    def _expression(self, tokens: Sequence[Token], text: str) -> str:
        """Return an expression without an alias; a column keeps its name, and so does a repeated expression."""
        shown = self._replaced(tokens, text)
        if shown == self._merge_action:
            return f"{shown} AS {self._named('merge_action')}"
        names, after = read_parts(tokens, 0)
        if names and after == len(tokens):
            return f"{shown} AS {self._named(names[-1])}"
        again = shown in self._written
        self._written.add(shown)
        return f"{shown} AS {self._named(shown)}" if again else shown

    def _replaced(self, tokens: Sequence[Token], text: str) -> str:
        """Return tokens as text, with the first query's columns in place of columns of other tables."""
        parts, end, index = [], tokens[0].start, 0
        while index < len(tokens):
            token = tokens[index]
            parts.append(" " if token.start > end else "")
            found, after = self._reference(tokens, index, text)
            parts.append(text[token.start : tokens[after - 1].end] if found is None else found)
            index = after
            end = tokens[index - 1].end
        return "".join(parts)

    @property
    def _merge_action(self) -> str:
        return f"{quoted(self._change.alias)}.{quoted(MERGE_ACTION)}"

    def _reference(self, tokens: Sequence[Token], index: int, text: str) -> tuple[str | None, int]:
        """Return the replacement of a column of another table, or None, and the index after the name."""
        token = tokens[index]
        names, after = read_parts(tokens, index)
        called = after < len(tokens) and tokens[after].is_symbol("(")
        if self._change.merged and names == ("merge_action",) and called:
            return self._merge_action, after + 2
        before = tokens[index - 1] if index else None
        names_item = before is not None and (before.is_word("as") or before.is_symbol("."))
        if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or not names or called or names_item:
            return None, index + 1
        if after < len(tokens) and tokens[after].is_symbol("=>"):  # the name of an argument
            return None, after
        qualifier, name = (names[-2] if len(names) > 1 else None), names[-1]
        tables = [table for table in self._source if qualifier in (None, table) and name in self._source[table]]
        if qualifier == self._change.alias or not tables or self._subqueries.own(token, qualifier, name):
            return None, after
        if qualifier is None and name in self._entry.schema.names:
            raise SqlError(f"RETURNING {name}: two tables have this column: write {self._change.alias}.{name}")
        return self._extra(text[token.start : tokens[after - 1].end]), after


class _Subqueries:
    """The subqueries of RETURNING, and which names in them belong to their own tables."""

    def __init__(self, text: str, columns_of: ColumnsOf) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._scopes: Scopes = read_scopes(text, self._tokens)
        self._index = {token.start: index for index, token in enumerate(self._tokens)}
        self._columns_of = columns_of
        self._known: dict[str, Sequence[str] | None] = {}
        tables = {table for scope in self._scopes.of for table in scope.tables}
        self._named = {at for table in tables for at in range(table.last, self._end(table))}
        """The indexes of aliases and of their column lists."""
        self._inside = {
            at
            for start, end in self._scopes.closing.items()
            if self._tokens[start + 1].is_word("select", "with", "values", "table")
            for at in range(start, end)
        }

    def own(self, token: Token, qualifier: str | None, name: str) -> bool:
        """Return whether a name in a subquery means a table there, or a column of a table there.

        Raises:
            SqlError: the name has no table, and the subquery has a table of unknown columns.
        """
        index = self._index[token.start]
        if index not in self._inside:
            return False
        if self._scopes.names_table[index] or index in self._named:
            return True
        scope = self._scopes.of[index]
        while scope.parent is not None:
            if qualifier is not None and any(table.alias == qualifier for table in scope.tables):
                return True
            if qualifier is None and any(self._has(table, name) for table in scope.tables):
                return True
            scope = scope.parent
        return False

    def _has(self, table: Table, name: str) -> bool:
        text = self._text[self._tokens[table.first].start : self._tokens[self._end(table) - 1].end]
        columns = None
        if self._scopes.common_table(table.parts, table.first) is None:
            if text not in self._known:
                self._known[text] = self._columns_of(text)
            columns = self._known[text]
        if columns is None:
            raise SqlError(
                f"RETURNING: {name} in a subquery can be a column of {table.alias} or of another table of the"
                f" statement: write {table.alias}.{name}, or the name of the other table and {name}"
            )
        return name in columns

    def _end(self, table: Table) -> int:
        """Return the index after a table, its alias and the column list of its alias."""
        if table.columns is not None:
            return table.columns[1] + 1
        if not table.aliased:
            return table.last
        return table.last + (2 if self._tokens[table.last].is_word("as") else 1)
