"""Rewrite columns that JOIN … USING and NATURAL JOIN merge; DataFusion reads one side's column in their place."""

from collections.abc import Iterator

from flightllm.common.names import quoted
from flightllm.dialect.joined_tables import JoinedTables, Merged, Side, Tables
from flightllm.dialect.output_names import is_star, read_item, repeated_name
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.unread_joins import UnreadJoins, kinds
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.keywords import SET_OPERATIONS
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import Select
from flightllm.sql.row_changes import find_clauses, outside
from flightllm.sql.scopes import Scope
from flightllm.sql.tokens import TokenKind, position

_AFTER_KEY = ("asc", "desc", "nulls", "limit", "offset", "fetch")
"""Words that can follow a whole key of ORDER BY."""
_VERBS = ("update", "delete", "select", "insert", "merge", "create")


def using(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT a FROM t RIGHT JOIN u USING (a)` as `SELECT "u"."a" FROM t RIGHT JOIN u ON "t"."a" = "u"."a"`.

    The column is the left one for INNER and LEFT, and `coalesce` of both for FULL. A star becomes the merged columns
    and the other columns of each table. A query with only inner joins keeps USING if it reads no merged column.

    Raises:
        SqlError: the text does not say which column USING or NATURAL means; the message says what to write.
        UnsupportedError: a star over merged columns has REPLACE, RENAME or ILIKE.
    """
    tables = JoinedTables(source)
    for select in source.selects:
        found = tables.of(select)
        if found is not None and found.merges:
            yield from _Using(source, tables, select, found).edits()
        elif (unread := tables.unread(select)) is not None:
            _check_unread(source, tables, select, unread)
    change = _change_as_select(source)
    if change is not None and (unread := tables.outer_joins(change)) is not None:
        _check_unread(source, tables, change, unread, (unread.end, len(source.tokens)))  # WHERE and RETURNING


def _change_as_select(source: Source) -> Select | None:
    """Return an UPDATE or a DELETE as a SELECT of its new values, or None for another statement or one without FROM."""
    tokens, scopes = source.tokens, source.scopes
    verbs = (i for i in outside(tokens, 0, len(tokens)) if tokens[i].is_word(*_VERBS) and not scopes.names_table[i])
    start = next(verbs, len(tokens))
    table = scopes.changed_table(start) if source.is_word(start, "update", "delete") else None
    if table is None:
        return None
    clauses = find_clauses(tokens, start, table.last)
    values = tuple(clauses.values(tokens))
    return None if clauses.tables == clauses.where else Select(start, values, clauses.tables)


def _check_unread(
    source: Source, tables: JoinedTables, select: Select, unread: UnreadJoins, after: tuple[int, int] | None = None
) -> None:
    """Raise `SqlError` if a SELECT reads a column that a RIGHT or FULL join merges, and that this rule cannot rewrite.

    DataFusion would read the column of the left table, which is NULL for rows that only the right table has. `after`
    has further tokens outside of FROM.
    """
    merged = {name: Merged(quoted(name)) for name in unread.names}
    outside = {name: one for name, one in merged.items() if name not in unread.changed}
    conditions = [(*condition, merged) for condition in unread.conditions]
    conditions += [] if after is None else [(*after, outside)]
    found = Tables([Side([], outside)], conditions=conditions, merges=True, outer=True, end=unread.end)
    if unread.joined_again or _Using(source, tables, select, found).reads_merged():
        join = unread.joins[0]
        kind = "FULL" if "full" in kinds(source, join) else "RIGHT"
        raise SqlError(
            f"the join at {position(source.sql, source.tokens[join].start)} is {kind} and has USING or NATURAL, and the"
            " server cannot read the merged column here: write the join as"
            f" (SELECT coalesce(a.id, b.id) AS id, … FROM a {kind} JOIN b ON a.id = b.id) AS q"
        )


class _Using:
    """The edits of one SELECT."""

    def __init__(self, source: Source, tables: JoinedTables, select: Select, found: Tables) -> None:
        self._source = source
        self._tables = tables
        self._select = select
        self._found = found
        self._scope = source.scopes.of[select.start]
        self._columns = {name: one for name, one in found.merged.items() if not found.is_ambiguous(name)}
        self._end = self._end_of_select()

    def edits(self) -> list[Edit]:
        """Return the edits of the FROM clause, the items and the other clauses."""
        found = self._found
        reads = list(self._reads())
        return [*reads, *found.edits] if reads or found.outer else []

    def reads_merged(self) -> bool:
        """Return whether the SELECT reads a merged column."""
        return any(self._reads())

    def _reads(self) -> Iterator[Edit]:
        """Yield the edits of names and stars."""
        found, source = self._found, self._source
        for first, last, merged in found.conditions:
            yield from self._references(first, last, merged)
        starred = False
        for first, last in self._select.items:
            if is_star(source, first, last):
                yield from self._star(first, last)
                starred = starred or source.is_symbol(first, "*")
            else:
                yield from self._item(first, last, repeats=starred)
        distinct = self._select.start + 1, source.first_item(self._select.start)
        yield from self._references(*distinct, self._columns)
        yield from self._references(found.end, self._end, self._columns)

    def _end_of_select(self) -> int:
        source, at = self._source, self._found.end
        while at < len(source.tokens) and not any(source.is_symbol(at, end) for end in (")", ";", "|>")):
            if source.is_word(at, *SET_OPERATIONS, "minus", "on", "returning"):
                break
            at = source.closing.get(at, at) + 1
        return min(at, len(source.tokens))

    def _star(self, first: int, last: int) -> Iterator[Edit]:
        """Rewrite `*` as the merged columns and the other columns of each table; `t.*` stays."""
        source, tokens = self._source, self._source.tokens
        if not source.is_symbol(first, "*"):
            return
        excluded = self._excluded(first, last)
        written = ", ".join(self._found.star(excluded))
        yield Edit(tokens[first].start, tokens[last - 1].end, written)

    def _excluded(self, first: int, last: int) -> frozenset[str]:
        source = self._source
        if last == first + 1:
            return frozenset()
        listed = [identifier(token) for token in source.tokens[first + 2 : last] if token.kind is not TokenKind.SYMBOL]
        known = all(table.columns is not None for table in self._found.tables)
        if not source.is_word(first + 1, "exclude", "except") or not known or source.is_symbol(last - 1, "*"):
            raise UnsupportedError(
                f"the star at {position(source.sql, source.tokens[first].start)} is over merged columns of USING or"
                f" NATURAL, and {source.tokens[first + 1].text.upper()} does not work there: name the columns"
            )
        return frozenset(filter(None, listed))

    def _item(self, first: int, last: int, *, repeats: bool) -> Iterator[Edit]:
        source = self._source
        item = read_item(source, first, last)
        for edit in self._references(first, last, self._columns, first):
            index = item.alias
            if index is not None and edit.start == source.tokens[index].start:
                continue
            if last > first + 1:
                yield edit
                continue
            name = identifier(source.tokens[first]) or ""
            again = repeats and not source.is_word(0, "create")
            plain = self._columns[name].plain and not again
            alias = "" if plain else f" AS {quoted(repeated_name(name) if again else name)}"
            yield Edit(edit.start, edit.end, f"{edit.text}{alias}")

    def _references(self, first: int, last: int, columns: dict[str, Merged], item: int | None = None) -> Iterator[Edit]:
        """Yield the merged columns for their names in a token range; `item` is the first token of an item."""
        order = self._order(first, last)
        for index in range(first, last):
            token = self._source.tokens[index]
            name = identifier(token)
            if name is None or name not in columns or not (index == item or self._source.begins_expression(index)):
                continue
            if self._is_other(index) or not self._is_visible(index, name):
                continue
            if order is not None and index > order and self._names_output(index, name):
                continue
            yield Edit(token.start, token.end, columns[name].sql)

    def _is_other(self, index: int) -> bool:
        """Return whether a name is part of a longer name, or of a call, a key, a type or a typed literal."""
        source = self._source
        after = source.tokens[index + 1] if index + 1 < len(source.tokens) else None
        if source.is_symbol(index - 1, "::"):
            return True
        if after is None:
            return False
        if after.kind is TokenKind.SYMBOL and after.text in {".", "(", "=>", ":="}:
            return True
        if after.is_symbol(":"):
            return not source.is_symbol(index - 1, "[")
        extracted = after.is_word("from") and source.is_word(index - 2, "extract", "date_part")
        return extracted or (after.kind is TokenKind.STRING and source.tokens[index].kind is TokenKind.WORD)

    def _is_visible(self, index: int, name: str) -> bool:
        """Return whether no SELECT between this one and a token has its own column of a name."""
        scope: Scope | None = self._source.scopes.of[index]
        while scope is not None and scope is not self._scope:
            if not self._tables.lack(scope, name):
                return False
            scope = scope.parent
        return scope is not None

    def _order(self, first: int, last: int) -> int | None:
        """Return the ORDER that begins the last clause in a token range."""
        source, at = self._source, first
        while at < last:
            if source.is_word(at, "order") and source.is_word(at + 1, "by"):
                return at
            at = source.closing.get(at, at) + 1
        return None

    def _names_output(self, index: int, name: str) -> bool:
        """Return whether a name in ORDER BY means a column of the result."""
        source, start = self._source, self._select.start
        if source.is_word(start - 1, *SET_OPERATIONS, "minus", "all", "distinct", "name"):
            return True
        items = [read_item(source, first, last) for first, last in self._select.items]
        stars = any(is_star(source, item.first, item.last) for item in items)
        if not stars and all(item.name != name or len(item.column) > 1 for item in items):
            return False
        whole = source.is_word(index - 1, "by") or source.is_symbol(index - 1, ",")
        ends = index + 1 >= self._end or source.is_symbol(index + 1, ",") or source.is_word(index + 1, *_AFTER_KEY)
        return (whole and ends) or source.is_word(start + 1, "distinct")
