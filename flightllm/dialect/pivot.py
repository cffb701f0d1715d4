"""Rewrite PIVOT with listed values as one aggregate with a FILTER for each value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flightllm.common.names import quoted
from flightllm.dialect.factors import (
    check_numbered,
    columns_in,
    factor_before,
    listed,
    read_clauses,
    split,
    without_alias,
)
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.tokens import TokenKind, position


@dataclass(frozen=True, slots=True)
class _Pivot:
    """One PIVOT: the token of its word, its table, and its parts as token ranges."""

    source: Source
    index: int
    table: tuple[int, int]
    aggregates: Sequence[tuple[int, int]]
    column: tuple[int, int]
    values: Sequence[tuple[int, int]]

    def items(self) -> list[str]:
        """Return one SELECT item for each value and aggregate."""
        first, last = self.column
        condition = self.source.text(first, last)
        condition = condition if last == first + 1 else f"({condition})"
        return [
            f"{call} FILTER (WHERE {_equal(condition, value)}) AS {quoted(name if suffix is None else name + suffix)}"
            for value, name in map(self._value, self.values)
            for call, suffix in list(map(self._aggregate, self.aggregates)) or [("count(*)", None)]
        ]

    def _value(self, item: tuple[int, int]) -> tuple[str, str]:
        """Return a value, and the first part of the names of its columns."""
        first, last = item
        end, alias = without_alias(self.source, first, last)
        token = self.source.tokens[first]
        text = self.source.text(first, end)
        if alias is None:
            alias = token.text if end == first + 1 and token.kind is TokenKind.STRING else text
        return text, alias

    def _aggregate(self, item: tuple[int, int]) -> tuple[str, str | None]:
        """Return an aggregate, and the suffix that its columns' names get; None for no suffix."""
        first, last = item
        end, alias = without_alias(self.source, first, last)
        if not self.source.is_symbol(end - 1, ")") or self.source.closing.get(first + 1) != end - 1:
            raise self.error("write an aggregate such as sum(a) or sum(a) AS total")
        text = self.source.text(first, end)
        if alias is None and len(self.aggregates) == 1:
            return text, None
        return text, f"_{alias or text}"

    def excluded(self) -> list[str]:
        """Return the columns that the result drops: the column of the values, and those in the aggregates."""
        ranges = [
            self.column,
            *((first + 2, without_alias(self.source, first, last)[0]) for first, last in self.aggregates),
        ]
        return columns_in(self.source, self.table, [one for one in ranges if one[0] < one[1]])

    def query(self, groups: str) -> str:
        """Return the rewritten query, with one row for each combination of the `groups`, or of all other columns."""
        table = self.source.text(*self.table)
        if groups:
            return f"SELECT {', '.join([groups, *self.items()])} FROM {table} GROUP BY {groups}"
        excluded = self.excluded()
        kept = f"* EXCLUDE ({listed(excluded)})" if excluded else "*"
        return f"SELECT {', '.join([kept, *self.items()])} FROM {table} GROUP BY ALL"

    def error(self, message: str) -> SqlError:
        """Return an error with the position of the PIVOT."""
        return SqlError(f"PIVOT at {position(self.source.sql, self.source.tokens[self.index].start)}: {message}")


def _equal(condition: str, value: str) -> str:
    return f"{condition} IS NULL" if value.lower() == "null" else f"{condition} = {value}"


def pivot(source: Source) -> Iterator[Edit]:
    """Rewrite a PIVOT as a SELECT with aggregates and GROUP BY.

    `PIVOT t ON a IN ('x') USING sum(b) GROUP BY c` → `SELECT c, sum(b) FILTER (WHERE a = 'x') AS "x" FROM t …`.
    `FROM t PIVOT (sum(b) FOR a IN ('x'))` keeps the columns of `t` that it does not name.

    Raises:
        SqlError: a part of the PIVOT is missing.
        UnsupportedError: the values are not listed, so that the columns of the PIVOT are unknown.
    """
    after = 0
    for index, token in enumerate(source.tokens):
        if token.is_word("pivot") and token.start >= after:
            found = _statement(source, index) or _factor(source, index)
            if found is not None:
                after = found.end
                yield found


def _statement(source: Source, index: int) -> Edit | None:
    """Read the form of DuckDB's statement, which can also be in parentheses."""
    clauses = read_clauses(source, index, "using", "group")
    if clauses is None:
        return None
    column, values = _values(source, index, *clauses.part("on"), clauses.end)
    aggregates = split(source, *clauses.part("using")) if "using" in clauses.places else []
    found = _Pivot(source, index, clauses.part("pivot"), aggregates, column, values)
    groups = ""
    if "group" in clauses.places:
        first, after = clauses.part("group")
        first += source.is_word(first, "by")
        groups = "" if source.is_word(first, "all") and after == first + 1 else source.text(first, after)
    return Edit(source.tokens[index].start, source.tokens[clauses.tail - 1].end, found.query(groups))


def _values(
    source: Source, index: int, first: int, last: int, end: int
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Read `a IN ('x', 'y')` in the tokens from `first` to `last`, in a PIVOT that ends at the token `end`.

    Raises:
        UnsupportedError: there is no list, or more than one column.
    """
    place = position(source.sql, source.tokens[index].start)
    if len(split(source, first, last)) > 1 or source.is_symbol(first, "("):
        raise UnsupportedError(
            f"PIVOT at {place} takes one column: write a column that joins several by ||, or a FILTER for each value"
        )
    opening = source.scopes.opening.get(last - 1, first)
    listed = opening > first and source.is_word(opening - 1, "in")
    if not listed or source.is_word(opening + 1, "any", "select", "with"):
        after = opening - 1 if listed else last
        rest = source.sql[source.tokens[last - 1].end : source.tokens[end - 1].end]
        raise UnsupportedError(
            f"the server must know the columns of PIVOT at {place} before it runs: list the values, as in"
            f" {source.text(index, after)} IN ('x', 'y'){rest}"
        )
    return (first, opening - 1), split(source, opening + 1, last - 1)


def _factor(source: Source, index: int) -> Edit | None:
    """Read the standard's form, which follows a table."""
    opening = index + 1
    last = source.closing.get(opening)
    if last is None or not source.is_symbol(opening, "("):
        return None
    at, words = opening + 1, -1
    while at < last:
        if source.is_word(at, "for"):
            words = at
            break
        at = source.closing.get(at, at) + 1
    if words < 0:
        return None  # here `pivot` is an alias with names of columns
    table = factor_before(source, index)
    place = position(source.sql, source.tokens[index].start)
    if table is None:
        raise SqlError(f"PIVOT at {place}: write it after one table or a query in parentheses")
    check_numbered(source, index, last)
    column, values = _values(source, index, words + 1, last, last + 1)
    found = _Pivot(source, index, (table, index), split(source, opening + 1, words), column, values)
    start = source.tokens[table].start
    return Edit(start, source.tokens[last].end, f"({found.query('')})")
