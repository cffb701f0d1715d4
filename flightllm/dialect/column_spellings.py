"""Find columns and fields whose names have capitals by unquoted names in any case."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.common.names import quoted
from flightllm.dialect.relations import Relations
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import ambiguous, name_at, spelling
from flightllm.dialect.table_names import target_tokens
from flightllm.dialect.text import Edit
from flightllm.sql.keywords import SET_OPERATIONS
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

    The innermost query that has the name in any case counts; in one query, an exact name comes first.
    Names of tables before a dot, and of fields after a column, are found in the same way.

    Raises:
        SqlError: several columns have the name without case: in one table without the exact name, or in several tables.
    """
    if source.is_word(0, *_STATEMENTS) or source.is_symbol(0, "("):
        yield from _Names(source, columns_of or source.columns_of).edits()


@dataclass(frozen=True, slots=True)
class _Result:
    """The columns of a query's result that a token can name."""

    columns: Mapping[str, pa.DataType | None]
    ordered: bool = False
    """Whether the token is in ORDER BY, where the names of the result come first."""
    of_set: bool = False
    """Whether UNION or another set operation makes the result: only its own columns can be named."""


_NO_RESULT = _Result({})


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
        named = source.names_column(index) or source.begins_expression(index) or source.ends_distinct_on(index - 1)
        return places if named or self._is_listed(index) else ()

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

    def _meant(self, places: Sequence[int]) -> Iterable[Edit]:
        index = places[0]
        if self._source.names_column(index):
            return self._of_list(places)
        scopes = list(self._relations.scopes(index))
        if len(places) > 1 or self._source.is_symbol(index + 1, "."):
            return self._dotted(places, scopes)
        result = self._result(index)
        if result.of_set:
            return self._fields(places, result.columns)
        return self._plain(places, scopes, result)

    def _dotted(self, places: Sequence[int], scopes: Sequence[Scope]) -> Iterable[Edit]:
        """Return the edits of a name with a dot: after a table or a column with fields, or else after any column."""
        index, known = places[0], True
        other: Mapping[str, pa.DataType | None] = {}
        for scope in scopes:
            more = self._further(index, scope)
            if (found := self._qualified(places, [*self._relations.tables(scope), *more])) is not None:
                return found
            known = known and not self._is_left(index, scope)
            columns = self._relations.of_scope(scope, more)
            name = self._relations.spelling(index, columns) if known else None
            if name is not None and _has_fields(columns[name]):
                self._check_one(index, scope)
                return self._fields(places, columns)
            if name is not None:
                other = other or columns
            known = known and not self._relations.is_open(scope)
        return self._fields(places, other)

    def _plain(self, places: Sequence[int], scopes: Sequence[Scope], result: _Result) -> Iterable[Edit]:
        """Return the edit of a name without a dot: of a column, or else of a table whose rows a call takes."""
        index, passed = places[0], list[Sequence[Table]]()
        for scope in scopes:
            more = self._further(index, scope)
            if self._is_left(index, scope):
                return ()
            columns = self._relations.of_scope(scope, more)
            if scope is scopes[0] and self._names_result(index, result, scope, columns):
                return self._fields(places, result.columns)
            if (name := self._relations.spelling(index, columns)) is not None:
                self._check_one(index, scope)
                return self._edit(index, name)
            passed.append([*self._relations.tables(scope), *more])
            if self._relations.is_open(scope):
                break
        names = (spelling(self._source, index, [one.alias for one in tables], "table") for tables in passed)
        name = next((name for name in names if name is not None), None)
        return () if name is None else self._edit(index, name)

    def _is_left(self, index: int, scope: Scope) -> bool:
        """Return whether a later step finds a name in a scope, or an operator of a pipe made the name."""
        made = self._is_in_pipe(index) and name_at(self._source.tokens[index]) in self._aliases
        return made or self._relations.is_late(scope)

    def _names_result(
        self, index: int, result: _Result, scope: Scope, columns: Mapping[str, pa.DataType | None]
    ) -> bool:
        """Return whether a name means a column of the result, and not one of the tables in FROM."""
        name = name_at(self._source.tokens[index])
        if name in result.columns:
            return result.ordered or self._relations.spelling(index, columns) is None
        if name in columns and len(self._relations.alike(index, scope)) < 2:
            return False
        return self._relations.spelling(index, result.columns) is not None

    def _check_one(self, index: int, scope: Scope) -> None:
        """Raise `SqlError` if tables of one FROM have a name without quotes in different spellings."""
        found = self._relations.alike(index, scope)
        if len(found) > 1:
            raise ambiguous(self._source, index, "column", found.values(), how="")

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
            name = self._relations.spelling(at, columns, "column" if at == places[0] else "field")
            if name is None:
                return
            yield from self._edit(at, name)
            columns = self._relations.fields(columns[name])

    def _edit(self, index: int, name: str) -> Iterator[Edit]:
        token = self._source.tokens[index]
        if name != name_at(token):
            yield Edit(token.start, token.end, quoted(name))

    # --- results

    def _result(self, index: int) -> _Result:
        """Return the columns of the result that a token can name: in ORDER BY, GROUP BY, HAVING and QUALIFY."""
        at = index
        while not self._scopes.clauses[at] and (opening := self._scopes.around[at]) is not None:
            at = opening
        clause, level = self._scopes.clauses[at], self._scopes.around[at]
        if clause not in _AFTER_RESULT:
            return _NO_RESULT
        first = self._set_operations.get(level, at) if clause == "order" else at
        of_set, select = first < at, self._selects.get(id(self._scopes.of[min(first, at)]))
        if select is not None and self._scopes.around[select.start] == level and select.start < first:
            start = select.start
        elif of_set and self._source.is_symbol(first - 1, ")"):
            start = self._scopes.opening[first - 1] + 1
        else:
            return _Result({}, of_set=of_set)
        return _Result(self._relations.of_query(start) or {}, ordered=clause == "order", of_set=of_set)

    @cached_property
    def _set_operations(self) -> Mapping[int | None, int]:
        """Return the first word of a set operation in each bracket, without the EXCEPT of a star."""
        source, found = self._source, dict[int | None, int]()
        for at, token in enumerate(source.tokens):
            if token.is_word(*SET_OPERATIONS, "minus") and not source.is_symbol(at - 1, "*"):
                found.setdefault(self._scopes.around[at], at)
        return found

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


def _has_fields(type_: pa.DataType | None) -> bool:
    return type_ is not None and pa.types.is_nested(type_)
