"""The columns of the tables in scope, with the spelling that they have in files."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.dialect.output_names import first_select, is_star, read_item
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import name_at, shown, spelling, without_case
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.scopes import CommonTable, Scope, Table, begins_query
from flightllm.sql.tokens import TokenKind

Columns = Mapping[str, pa.DataType | None] | None
"""The types of columns by their names, None for an unknown type; None if the columns are unknown."""
_NEW_NAMES = ("replace", "rename")
_OF_ROWS = ("unnest", "generate_series", "range", "explode", "posexplode", "flatten", "lateral", "table", "only")
"""Functions in FROM whose columns stay unknown, and words that call no function."""
_OPERATORS = ("pivot", "unpivot")
"""Words after a table that look like its alias; a list after them has other things than columns."""


class Relations:
    """The columns of the tables of one text. They are those of its rows before any rewriting of column names."""

    def __init__(self, source: Source, columns_of: TableColumns) -> None:
        self._source = source
        self._columns_of = columns_of
        self._known = dict[int, Columns]()
        """The columns of each query by its first token; None while they are read."""
        self._columns = dict[int, Columns]()
        """The columns of each table, by the table's identity."""
        self._merged = dict[tuple[int, ...], Mapping[str, pa.DataType | None]]()
        """The columns of all tables of each scope, by the identities of the scope and of further tables."""
        self._folded = dict[int, tuple[object, Mapping[str, Sequence[str]]]]()
        """Columns and their names without case, by the identity of the columns."""
        self._fields = dict[int, tuple[pa.DataType, Mapping[str, pa.DataType | None]]]()
        """The fields of each struct, by the identity of its type."""
        self._alike = dict[int, Mapping[str, Mapping[str, Table]]]()
        """For each scope, the spellings in its tables by their form without case, with a table for each spelling."""
        self._items = {select.start: select.items for select in source.selects}
        called = [index for index, named in enumerate(source.scopes.names_table) if named and self._is_read(index)]
        self._hidden = {id(source.scopes.of[index]) for index in called}
        """The scopes with a function or a file in FROM, whose columns are unknown."""
        self._late = {id(source.scopes.of[index]) for index in called if not source.is_word(index, *_OF_ROWS)}
        """The scopes with a file or a search in FROM: a later step knows their columns."""
        self._unnamed = dict[int, list[Table]]()
        """The queries in FROM without an alias, by their scopes."""
        for index, named in enumerate(source.scopes.names_table):
            if named and source.scopes.clauses[index] in {"from", "join"} and source.is_symbol(index, "("):
                self._add_unnamed(index)

    def _is_read(self, index: int) -> bool:
        """Return whether a file or a call is in FROM at a token."""
        called = self._source.tokens[index].kind is TokenKind.WORD and self._source.is_symbol(index + 1, "(")
        read = self._source.scopes.clauses[index] in {"from", "join"}
        return read and (called or self._source.tokens[index].kind is TokenKind.STRING)

    def is_late(self, scope: Scope) -> bool:
        """Return whether the names of a scope are found later, with the columns of its files and searches."""
        return id(scope) in self._late

    def _add_unnamed(self, index: int) -> None:
        source = self._source
        scope = source.scopes.of[index]
        if all(one.first != index for one in scope.tables) and begins_query(source.tokens, source.closing, index):
            table = Table("", None, (index, source.closing[index]), None, (), index, source.closing[index] + 1)
            self._unnamed.setdefault(id(scope), []).append(table)

    def tables(self, scope: Scope) -> Sequence[Table]:
        """Return the tables and queries of a scope."""
        return [*scope.tables, *self._unnamed.get(id(scope), ())]

    def is_open(self, scope: Scope) -> bool:
        """Return whether a scope can have columns that are not known here."""
        return id(scope) in self._hidden or any(self.columns(table) is None for table in self.tables(scope))

    def of_scope(self, scope: Scope, more: Sequence[Table] = ()) -> Mapping[str, pa.DataType | None]:
        """Return the known columns of all tables of a scope, and of further tables."""
        key = (id(scope), *map(id, more))
        if key not in self._merged:
            self._merged[key] = self.of_tables([*self.tables(scope), *more])
        return self._merged[key]

    def spelling(self, index: int, columns: Mapping[str, pa.DataType | None], what: str = "column") -> str | None:
        """Return the one of some columns or fields that a token means, or None; see `spelling`.

        Raises:
            SqlError: several of the names are equal without case, and the exact one is not among them.
        """

        def folded() -> Mapping[str, Sequence[str]]:
            if id(columns) not in self._folded:
                self._folded[id(columns)] = columns, without_case(columns)
            return self._folded[id(columns)][1]

        return spelling(self._source, index, columns, what, folded)

    def fields(self, type_: pa.DataType | None) -> Mapping[str, pa.DataType | None]:
        """Return the types of a struct's fields by their names; for another type, no fields."""
        if type_ is None or not pa.types.is_struct(type_):
            return {}
        if id(type_) not in self._fields:
            self._fields[id(type_)] = type_, {one.name: one.type for one in type_}
        return self._fields[id(type_)][1]

    def alike(self, index: int, scope: Scope) -> Mapping[str, str]:
        """Return the spellings of an unquoted name in the tables of one FROM, each as text with its table.

        Columns that USING or NATURAL merges, and tables of semi and anti joins, do not count. The condition of a join
        knows only the tables before it.
        """
        token = self._source.tokens[index]
        if token.kind is not TokenKind.WORD or len(scope.tables) < 2:
            return {}
        if id(scope) not in self._alike:
            self._alike[id(scope)] = self._spelt(scope)
        found = self._alike[id(scope)].get((name_at(token) or "").casefold(), {})
        if len(found) < 2:
            return {}
        inner, clauses = index, self._source.scopes.clauses
        while not clauses[inner] and (opening := self._source.scopes.around[inner]) is not None:
            inner = opening
        told = (pair for pair in found.items() if clauses[inner] != "on" or pair[1].first < index)
        return {name: f"{shown(table.alias)}.{shown(name)}" for name, table in told}

    def _spelt(self, scope: Scope) -> Mapping[str, Mapping[str, Table]]:
        found, merged = dict[str, dict[str, Table]](), self._merging.get(id(scope), frozenset[str]())
        if merged is None:
            return {}
        for table in scope.tables:
            if self._source.is_word(table.first - 2, "semi", "anti"):
                continue
            for name in self.columns(table) or {}:
                found.setdefault(name.casefold(), {}).setdefault(name, table)
        return {name: tables for name, tables in found.items() if name not in merged}

    @cached_property
    def _merging(self) -> Mapping[int, frozenset[str] | None]:
        """Return the names without case in USING by their scopes; None for a scope with NATURAL."""
        source, found = self._source, dict[int, frozenset[str] | None]()
        for index, token in enumerate(source.tokens):
            key = id(source.scopes.of[index])
            if token.is_word("natural"):
                found[key] = None
            elif token.is_word("using") and source.is_symbol(index + 1, "("):
                listed = source.tokens[index + 2 : source.closing.get(index + 1, index + 2)]
                before = found.get(key, frozenset())
                names = frozenset(name.casefold() for one in listed if (name := name_at(one)) is not None)
                found[key] = None if before is None else before | names
        return found

    def of_tables(self, tables: Iterable[Table]) -> Mapping[str, pa.DataType | None]:
        """Return the known columns of some tables."""
        found = dict[str, pa.DataType | None]()
        for table in tables:
            found |= self.columns(table) or {}
        return found

    def columns(self, table: Table) -> Columns:
        """Return the columns of a table of FROM."""
        if id(table) not in self._columns:
            self._columns[id(table)] = None
            self._columns[id(table)] = self._of_table(table)
        return self._columns[id(table)]

    def _of_table(self, table: Table) -> Columns:
        if table.subquery is not None:
            columns = self.of_query(table.subquery[0] + 1)
        elif table.parts:
            common = self._source.scopes.common_table(table.parts, table.first)
            columns = self._columns_of(table.parts) or None if common is None else self._of_common_table(common)
        else:
            columns = None
        listed = table.columns if table.alias not in _OPERATORS else None
        return self._renamed(columns, listed)

    def _of_common_table(self, common: CommonTable) -> Columns:
        return self._renamed(self.of_query(common.opening + 1), common.columns)

    def _renamed(self, columns: Columns, listed: tuple[int, int] | None) -> Columns:
        """Return columns with the names of a list after an alias."""
        if listed is None:
            return columns
        tokens = self._source.tokens[listed[0] + 1 : listed[1]]
        names = [name for token in tokens if (name := name_at(token)) is not None]
        before = list((columns or {}).items())
        types = [type_ for _, type_ in before] + [None] * len(names)
        return dict([*zip(names, types, strict=False), *before[len(names) :]])

    def of_query(self, start: int) -> Columns:
        """Return the columns of the query that begins at a token."""
        if start not in self._known:
            self._known[start] = None
            self._known[start] = self._read(start)
        return self._known[start]

    def _read(self, start: int) -> Columns:
        source = self._source
        select = first_select(source, start)
        piped = "|>" in source.marks and any(
            source.is_symbol(at, "|>") for at in range(start, source.end_of_query(start))
        )
        if select is None or piped:
            return None
        found = dict[str, pa.DataType | None]()
        for first, last in self._items.get(select, ()):
            columns = self._item(first, last)
            if columns is None:
                return None
            found |= columns
        return found

    def _item(self, first: int, last: int) -> Columns:
        """Return the columns of an item of SELECT; those of an expression without an alias have no name to write."""
        source = self._source
        if is_star(source, first, last):
            return self._star(first, last)
        item = read_item(source, first, last)
        if item.alias is not None:
            name = name_at(source.tokens[item.alias])
            types = self.found(range(first, item.alias, 2)) if item.alias - first in {1, 2, 3, 4} else {}
            return {name or "": next(iter(types.values()), None) if len(types) == 1 else None}
        if item.column:
            return self.found(range(first, last, 2))
        return None if source.is_word(first, "columns", "unnest", "explode") else {}

    def _star(self, first: int, last: int) -> Columns:
        source, found = self._source, dict[str, pa.DataType | None]()
        at = next(at for at in range(first, last) if source.is_symbol(at, "*"))
        scope = source.scopes.of[first]
        tables = self.tables(scope) if at == first else [one for one in [self.table(at - 2)] if one is not None]
        if (at == first and id(scope) in self._hidden) or not tables:
            return None
        for table in tables:
            columns = self.columns(table)
            if columns is None:
                return None
            found |= columns
        if any(source.is_word(after, *_NEW_NAMES) for after in range(at + 1, last)):
            named = (after + 1 for after in range(at + 1, last) if source.is_word(after, "as"))
            found |= {name: None for after in named if (name := name_at(source.tokens[after])) is not None}
        return found

    def table(self, index: int) -> Table | None:
        """Return the table that a qualifier of one part means at a token, in the innermost scope that has it."""
        for scope in self.scopes(index):
            known = {one.alias: one for one in scope.tables}
            name = spelling(self._source, index, known, "table")
            if name is not None:
                return known[name]
        return None

    def scopes(self, index: int) -> Iterable[Scope]:
        """Yield the scopes around a token, the innermost first."""
        scope: Scope | None = self._source.scopes.of[index]
        while scope is not None:
            yield scope
            scope = scope.parent

    def found(self, places: Sequence[int]) -> Mapping[str, pa.DataType | None]:
        """Return the name and the type of the column that a dotted name means; its own name if no table has it."""
        name = name_at(self._source.tokens[places[-1]]) or ""
        for scope in self.scopes(places[0]):
            qualified = self.table(places[-2]) if len(places) > 1 else None
            columns = self.of_scope(scope) if qualified is None else self.columns(qualified) or {}
            meant = self.spelling(places[-1], columns)
            if meant is not None:
                return {meant: columns[meant]}
        return {name: None}
