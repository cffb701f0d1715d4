"""Join tables by USING and NATURAL whose columns have one name in different cases."""

from collections.abc import Iterable, Iterator, Sequence

from flightllm.common.names import quoted
from flightllm.dialect.relations import Relations
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import name_at, spelling, without_case
from flightllm.dialect.text import Edit
from flightllm.sql.keywords import JOIN_KINDS
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.scopes import Table


def using_spellings(source: Source, columns_of: TableColumns | None = None) -> Iterator[Edit]:
    """Rewrite `t JOIN u USING (id)` as `t JOIN (SELECT "ID" AS "Id", "a" FROM u) AS "u" USING ("Id")`.

    The column has the name that it has on the left side. NATURAL finds columns whose names differ in case, too.

    Raises:
        SqlError: several columns of a side have the name without case.
    """
    yield from _Joins(source, columns_of or source.columns_of).edits()


class _Joins:
    """The joins of one statement."""

    def __init__(self, source: Source, columns_of: TableColumns) -> None:
        self._source = source
        self._relations = Relations(source, columns_of)
        self._renamed = dict[int, dict[str, str]]()
        """The new names of the columns of a table, by its first token."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of the names in USING, then those of the tables whose columns get other names."""
        tables = dict[int, Table]()
        for index, token in enumerate(self._source.tokens):
            sides = None
            if token.is_word("using") and self._source.is_symbol(index + 1, "("):
                sides = self._sides(index, index)
            elif token.is_word("natural"):
                join = index + 1
                while self._source.is_word(join, *JOIN_KINDS):
                    join += 1
                sides = self._sides(index, join + 2) if self._source.is_word(join, "join") else None
            if sides is None:
                continue
            left, right = sides
            tables[right.first] = right
            if token.is_word("using"):
                yield from self._using(index, left, right)
            else:
                self._natural(left, right)
        yield from (edit for first, table in tables.items() for edit in self._table(first, table))

    def _sides(self, index: int, before: int) -> tuple[Sequence[str], Table] | None:
        """Return the columns of the left side of a join, and the table of the right side that begins before a token."""
        source, level = self._source, self._source.scopes.around[index]
        known = [
            one
            for one in source.scopes.of[index].tables
            if one.first < before and source.scopes.around[one.first] == level
        ]
        if not known or known[-1].columns is not None or self._relations.columns(known[-1]) is None:
            return None
        right, start = known[-1], known[-1].first
        if not source.is_word(start - 1, "join"):
            return None
        while start and not source.is_word(start, "from") and not source.is_symbol(start, ","):
            start -= 1
            start = source.scopes.opening.get(start, start)
        left = [name for one in known[:-1] if one.first > start for name in self._names(one)]
        return (left, right) if left else None

    def _names(self, table: Table) -> Iterable[str]:
        renamed = self._renamed.get(table.first, {})
        return (renamed.get(name, name) for name in self._relations.columns(table) or {})

    def _using(self, index: int, left: Sequence[str], right: Table) -> Iterator[Edit]:
        source, columns = self._source, self._relations.columns(right) or {}
        for at in range(index + 2, source.closing.get(index + 1, index + 2), 2):
            kept = spelling(source, at, left)
            other = kept if kept in columns else self._relations.spelling(at, columns)
            if kept is None or other is None:
                continue
            if kept != other:
                self._renamed.setdefault(right.first, {})[other] = kept
            if kept != name_at(source.tokens[at]):
                yield Edit(source.tokens[at].start, source.tokens[at].end, quoted(kept))

    def _natural(self, left: Sequence[str], right: Table) -> None:
        """Note the new names of the columns that NATURAL merges."""
        columns, known = self._relations.columns(right) or {}, without_case(left)
        for name in columns:
            alike = set(known.get(name.casefold(), ()))
            if len(alike) == 1 and alike.isdisjoint(columns):
                self._renamed.setdefault(right.first, {})[name] = alike.pop()

    def _table(self, first: int, table: Table) -> Iterator[Edit]:
        """Yield the edit that gives the columns of a table their new names."""
        source, renamed = self._source, self._renamed.get(first)
        if not renamed:
            return
        columns = (
            f"{quoted(name)} AS {quoted(renamed[name])}" if name in renamed else quoted(name)
            for name in self._relations.columns(table) or {}
        )
        alias = "" if table.aliased or table.subquery else f" AS {quoted(table.alias)}"
        text = f"(SELECT {', '.join(columns)} FROM {source.text(first, table.last)}){alias}"
        yield Edit(source.tokens[first].start, source.tokens[table.last - 1].end, text)
