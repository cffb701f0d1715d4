"""Find columns and fields whose names have capitals by unquoted names in any case."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.common.names import quoted
from flightllm.dialect.relations import Relations
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import name_at, spelling
from flightllm.dialect.table_names import target_tokens
from flightllm.dialect.text import Edit
from flightllm.sql.names import read_parts
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.scopes import NO_ALIAS, Scope, Table
from flightllm.sql.tokens import TokenKind

_STATEMENTS = (
    *("select", "with", "values", "from", "insert", "update", "delete", "merge", "create"),
    *("explain", "describe", "desc", "summarize", "pivot", "unpivot"),
)
_AFTER_RESULT = ("group", "having", "qualify", "order")
"""The clauses that can name columns of the result."""
_RESERVED = frozenset(
    {
        *("all", "and", "any", "array", "as", "asc", "between", "both", "by", "case", "cast", "collate", "create"),
        *("cross", "current_date", "current_time", "current_timestamp", "desc", "distinct", "else", "end", "except"),
        *("exists", "false", "fetch", "for", "from", "full", "grant", "group", "having", "ilike", "in", "inner"),
        *("intersect", "interval", "into", "is", "join", "lateral", "leading", "left", "like", "limit", "localtime"),
        *("localtimestamp", "natural", "not", "null", "offset", "on", "only", "or", "order", "outer", "over"),
        *("qualify", "returning", "right", "select", "similar", "some", "table", "then", "to", "trailing", "true"),
        *("try_cast", "union", "unique", "using", "values", "when", "where", "window", "with"),
    }
)
"""Words of SQL that name columns only in quotes."""
_OF_CHANGES = frozenset({"matched", "insert", "update", "delete", "do", "default", "conflict", "nothing"})
_FRAMES = ("preceding", "following", "row")


def column_spellings(source: Source, columns_of: TableColumns | None = None) -> Iterator[Edit]:
    """Rewrite `SELECT userid FROM t` as `SELECT "userId" FROM t` if the table has a column `userId`, but no `userid`.

    An exact name comes first, also one of an outer query. Otherwise the innermost query that has the name counts.
    Names of tables before a dot, and of fields after a column, are found in the same way.

    Raises:
        SqlError: several columns have the name without case.
    """
    if source.is_word(0, *_STATEMENTS) or source.is_symbol(0, "("):
        yield from _Names(source, columns_of or source.columns_of).edits()


class _Names:
    """The names of columns in one statement."""

    def __init__(self, source: Source, columns_of: TableColumns) -> None:
        self._source = source
        self._scopes = source.scopes
        self._columns_of = columns_of
        self._relations = Relations(source, columns_of)
        self._targets = list(self._changed())
        self._is_about = bool(self._targets) and source.is_word(0, "create")
        self._operated = dict(self._pivoted())
        self._selects = {id(self._scopes.of[one.start]): one for one in source.selects}

    def _changed(self) -> Iterator[Table]:
        """Yield the table that the statement changes under its alias, and the new rows of ON CONFLICT."""
        source = self._source
        if source.is_word(0, "create"):
            yield from self._about()
            return
        for index in range(1, len(source.tokens)):
            if not source.is_word(index, "into") or not source.is_word(index - 1, "insert", "merge"):
                continue
            parts, after = read_parts(source.tokens, index + 1)
            at = after + source.is_word(after, "as")
            alias = name_at(source.tokens[at]) if at < len(source.tokens) else None
            named = alias is not None and not source.is_word(at, *NO_ALIAS, "default", "overriding", "by")
            if parts:
                yield Table(alias if named and alias else parts[-1], None, None, None, parts, index + 1, after)
                if source.is_word(index - 1, "insert"):
                    yield Table("excluded", None, None, None, parts, index + 1, after)

    def _pivoted(self) -> Iterator[tuple[int, list[Table]]]:
        """Yield the tables that DuckDB's PIVOT and UNPIVOT name without FROM, by their scopes."""
        for index, token in enumerate(self._source.tokens):
            parts, after = read_parts(self._source.tokens, index + 1)
            if token.is_word("pivot", "unpivot") and parts:
                table = Table(parts[-1], None, None, None, parts, index + 1, after)
                yield id(self._scopes.of[index]), [table]

    def _about(self) -> Iterator[Table]:
        """Yield the table of an index, a row filter or a mask."""
        if self._source.is_word(1, "table", "view", "temp", "temporary", "external", "schema"):
            return
        for index in target_tokens(self._source):
            parts, after = read_parts(self._source.tokens, index)
            if parts and self._source.is_word(index - 1, "on", "table"):
                yield Table(parts[-1], None, None, None, parts, index, after)

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all names."""
        for index in range(len(self._source.tokens)):
            places = self._name(index)
            if places:
                yield from self._meant(places)

    def _name(self, index: int) -> Sequence[int]:
        """Return the tokens of the dotted name that begins at a token; an empty list for other words."""
        source = self._source
        token = source.tokens[index]
        if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.is_symbol(index - 1, "."):
            return ()
        if self._scopes.names_table[index] and id(self._scopes.of[index]) not in self._operated:
            return ()
        _, after = read_parts(source.tokens, index)
        places = range(index, after, 2)
        if source.is_symbol(after, "(") or all(source.tokens[at].kind is TokenKind.QUOTED for at in places):
            return ()
        if token.kind is TokenKind.WORD and self._is_keyword(index, after):
            return ()
        named = source.names_column(index) or source.begins_expression(index) or self._ends_distinct_on(index - 1)
        return places if named or self._is_listed(index) else ()

    def _ends_distinct_on(self, index: int) -> bool:
        """Return whether a token closes `SELECT DISTINCT ON (…)`, after which an expression begins."""
        opening = self._scopes.opening.get(index, 0)
        return self._source.is_word(opening - 1, "on") and self._source.is_word(opening - 2, "distinct")

    def _is_listed(self, index: int) -> bool:
        """Return whether a token is a name after EXCLUDE, the name of a replaced column, or begins a row filter."""
        source = self._source
        if source.is_word(index - 1, "exclude") or (self._is_about and source.is_word(index - 1, "as")):
            return True
        around = self._scopes.around[index]
        return source.is_word(index - 1, "as") and around is not None and source.is_word(around - 1, "replace")

    def _is_keyword(self, index: int, after: int) -> bool:
        source = self._source
        if after - index > 1 and not source.is_symbol(after, "*"):
            return False
        word = source.tokens[index].text.lower()
        if word in _RESERVED and not source.is_symbol(index + 1, "."):
            return True
        following = source.tokens[index + 1] if index + 1 < len(source.tokens) else None
        if word in _OF_CHANGES and source.is_word(0, "insert", "merge", "with", "explain"):
            return True
        if following is None:
            return False
        if following.kind in {TokenKind.STRING, TokenKind.LITERAL} or following.is_word(*_FRAMES):
            return True  # DATE '2024-01-02', CURRENT ROW
        if source.is_symbol(index - 1, "::") or following.text in {"=>", ":="}:
            return True
        opening = self._scopes.around[index]
        if opening is None or index != opening + 1:
            return opening is not None and source.is_symbol(opening, "{") and following.is_symbol(":")
        unit = following.is_word("from") and source.is_word(opening - 1, "extract")
        return unit or (source.is_symbol(opening, "{") and following.is_symbol(":"))

    # --- meanings

    def _meant(self, places: Sequence[int]) -> Iterator[Edit]:
        index = places[0]
        if self._source.names_column(index):
            yield from self._of_list(places)
            return
        result = self._result(index) if len(places) == 1 else {}
        scopes = list(self._relations.scopes(index))
        results = [result, *({} for _ in scopes[1:])]
        pairs = list(zip(scopes, results, strict=True))
        exact = next((pair for pair in pairs if self._has_exactly(places, *pair)), None)
        for scope, known in pairs if exact is None else [exact]:
            found = self._in_scope(places, scope, known)
            if found is not None:
                yield from found
                return

    def _has_exactly(self, places: Sequence[int], scope: Scope, result: Mapping[str, pa.DataType | None]) -> bool:
        """Return whether a column or table of a scope has the first name exactly: a text keeps such a meaning."""
        name, more = name_at(self._source.tokens[places[0]]) or "", self._further(places[0], scope)
        if name in self._relations.of_scope(scope) or name in result or name in self._relations.of_tables(more):
            return True
        qualifies = self._source.is_symbol(places[0] + 1, ".")
        return qualifies and any(name == table.alias for table in (*self._relations.tables(scope), *more))

    def _in_scope(
        self, places: Sequence[int], scope: Scope, result: Mapping[str, pa.DataType | None]
    ) -> Iterable[Edit] | None:
        """Return the edits of a name that a scope has or can have; None to look it up in the scope around."""
        index, more = places[0], self._further(places[0], scope)
        tables = [*self._relations.tables(scope), *more]
        if (found := self._qualified(places, tables)) is not None:
            return found
        columns = self._relations.of_scope(scope)
        columns = {**columns, **self._relations.of_tables(more)} if more else columns
        name = name_at(self._source.tokens[index])
        if self._relations.is_late(scope) or (self._is_in_pipe(index) and name in self._aliases):
            return ()
        if name in columns or name in result:
            return self._fields(places, columns)
        for known in (result, columns):
            if spelling(self._source, index, known) is not None:
                return self._fields(places, known)
        alias = spelling(self._source, index, [one.alias for one in tables], "table") if len(places) == 1 else None
        if alias is not None:
            return self._edit(index, alias)
        return () if self._relations.is_open(scope) else None

    def _further(self, index: int, scope: Scope) -> Sequence[Table]:
        """Return the tables that a token can name beside those in FROM."""
        changed = self._targets if scope is self._root(index) else ()
        piped = self._scopes.of[self._source.start_of_query(index)] if self._is_in_pipe(index) else None
        more = [*changed, *self._operated.get(id(scope), ())]
        return more if piped is None else [*more, *self._relations.tables(piped)]

    def _root(self, index: int) -> Scope:
        scope = self._scopes.of[index]
        while scope.parent is not None:
            scope = scope.parent
        return scope if self._scopes.of[index] is scope else Scope(None)

    def _of_list(self, places: Sequence[int]) -> Iterator[Edit]:
        """Yield the edit of a name in a list of columns, or before the `=` of SET."""
        index = inner = places[0]
        while not self._scopes.clauses[inner] and (opening := self._scopes.around[inner]) is not None:
            inner = opening
        clause = self._scopes.clauses[inner]
        if clause in {"table", "view", "with"}:
            return
        if clause == "set" and not self._targets:
            tables = self._scopes.of[index].tables[:1]
        elif clause == "using":
            tables = self._scopes.of[index].tables
        else:
            tables = self._targets[:1]
        yield from self._fields(places, self._relations.of_tables(tables))

    def _qualified(self, places: Sequence[int], tables: Sequence[Table]) -> list[Edit] | None:
        """Return the edits of a name with a table before it; None if no table of a scope is meant."""
        source = self._source
        last = places[-1]
        star = source.is_symbol(last + 1, ".") and source.is_symbol(last + 2, "*")
        for count in range(1, len(places) + star):
            named = {}
            for table in tables:
                parts = (table.alias,) if table.aliased or count == 1 else table.parts[-count:]
                if len(parts) == count:
                    named[parts] = table
            found = self._table(places[:count], named)
            if found is None:
                continue
            parts, table = found
            edits = [edit for at, part in zip(places, parts, strict=False) for edit in self._edit(at, part)]
            columns = self._relations.columns(table) or {}
            return [*edits, *(self._fields(places[count:], columns) if count < len(places) else ())]
        return None

    def _table(
        self, places: Sequence[int], named: Mapping[tuple[str, ...], Table]
    ) -> tuple[tuple[str, ...], Table] | None:
        chosen = named
        written: tuple[str, ...] = ()
        for place, at in enumerate(places):
            name = spelling(self._source, at, {parts[place] for parts in chosen}, "table")
            if name is None:
                return None
            chosen = {parts: table for parts, table in chosen.items() if parts[place] == name}
            written = (*written, name)
        return (written, chosen[written]) if written in chosen else None

    def _fields(self, places: Sequence[int], columns: Mapping[str, pa.DataType | None]) -> Iterator[Edit]:
        """Yield the edits of a column and of the fields after it."""
        for at in places:
            name = spelling(self._source, at, columns, "column" if at == places[0] else "field")
            if name is None:
                return
            yield from self._edit(at, name)
            type_ = columns[name]
            columns = {one.name: one.type for one in type_} if type_ is not None and pa.types.is_struct(type_) else {}

    def _edit(self, index: int, name: str) -> Iterator[Edit]:
        token = self._source.tokens[index]
        if name != name_at(token):
            yield Edit(token.start, token.end, quoted(name))

    # --- results

    def _result(self, index: int) -> Mapping[str, pa.DataType | None]:
        """Return the columns of the result that a token can name: in ORDER BY, GROUP BY, HAVING and QUALIFY."""
        select = self._selects.get(id(self._scopes.of[index]))
        if select is None or index < select.end:
            return {}
        level, at = self._scopes.around[select.start], index
        while self._scopes.around[at] != level:
            opening = self._scopes.around[at]
            if self._scopes.clauses[at] or opening is None:
                return {}
            at = opening
        if self._scopes.clauses[at] not in _AFTER_RESULT:
            return {}
        return self._relations.of_query(self._source.start_of_query(select.start)) or {}

    def _is_in_pipe(self, index: int) -> bool:
        """Return whether the query of a token has operators of a pipe."""
        return self._scopes.around[index] in self._pipes

    @cached_property
    def _pipes(self) -> frozenset[int | None]:
        """Return the brackets around the operators of pipes."""
        if "|>" not in self._source.marks:
            return frozenset()
        return frozenset(self._scopes.around[at] for at, one in enumerate(self._source.tokens) if one.text == "|>")

    @cached_property
    def _aliases(self) -> frozenset[str | None]:
        """Return the names after AS, which operators of a pipe can name."""
        source = self._source
        named = (at + 1 for at in range(len(source.tokens) - 1) if source.is_word(at, "as"))
        return frozenset(name_at(source.tokens[at]) for at in named)
