"""What tables a query reads, and how often, once each WITH query stands where it is used."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flightllm.common.names import TableName, table_name
from flightllm.errors import SqlError
from flightllm.sql.names import identifier, with_name
from flightllm.sql.tokens import Kind, Token

_BEGINS_QUERY = ("select", "with", "values")
_ENDS_FROM = (
    *("where", "group", "having", "order", "limit", "offset", "fetch", "window", "qualify"),
    *("union", "intersect", "except"),
)


@dataclass(frozen=True, slots=True)
class Expanded:
    """A query with its WITH queries in their places: of how many queries it consists, and what tables these read.

    A table that only a WITH query reads which is not used itself is read 0 times. `levels` tells how deep each is read
    in queries that are nested in expressions, `nested` how deep these are at the most.
    """

    parts: int
    tables: Mapping[TableName, int]
    levels: Mapping[TableName, int] = field(default_factory=dict)
    nested: int = 0


@dataclass(slots=True)
class _Query:
    """What stands between two parentheses."""

    name: str | None = None
    """Of the WITH query that it is."""
    is_query: bool = False
    in_from: bool = False
    recursive: bool = False
    parts: int = 0
    tables: Counter[TableName] = field(default_factory=Counter)
    named: dict[str, Expanded] = field(default_factory=dict)
    """The WITH queries that it begins with."""
    in_expression: bool = False
    levels: dict[TableName, int] = field(default_factory=dict)
    nested: int = 0

    def add(self, other: "_Query | Expanded", level: int = 0) -> None:
        self.parts += other.parts
        self.nested = max(self.nested, level + other.nested)
        for name, times in other.tables.items():
            self.tables[name] += times
            self.levels[name] = max(self.levels.get(name, 0), level + other.levels.get(name, 0))


def expanded(tokens: Sequence[Token]) -> Expanded:
    """Return what a query becomes."""
    return _Reader(tokens).read()


class _Reader:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._open = [_Query(parts=1)]
        self._seen: set[TableName] = set()
        self._table_next = False
        """A table may stand at the next token."""

    def read(self) -> Expanded:
        index = 0
        while index < len(self._tokens):
            token = self._tokens[index]
            if token.kind is Kind.SYMBOL:
                self._symbol(token.text, index)
            elif not self._is_keyword(token, index) and self._table_next:
                index = self._table(index)
                continue
            index += 1
        while len(self._open) > 1:
            self._close()
        query = self._open[0]
        tables = {name: query.tables[name] for name in {*query.tables, *self._seen}}
        return Expanded(query.parts, tables, query.levels, query.nested)

    def _symbol(self, symbol: str, index: int) -> None:
        top = self._open[-1]
        if symbol == "(":
            name = with_name(self._tokens, index)
            inner = _Query(name, in_from=self._table_next, parts=int(name is not None))
            inner.in_expression = name is None and not self._table_next
            if name is not None and top.recursive:
                inner.named[name] = Expanded(1, {})
            self._open.append(inner)
            return  # in FROM, a table may come in parentheses
        if symbol == ")" and len(self._open) > 1:
            self._close()
        elif symbol == "|>":
            top.in_from = False
        self._table_next = symbol == "," and self._open[-1].in_from

    def _close(self) -> None:
        query = self._open.pop()
        if query.name is None:
            self._open[-1].add(query, int(query.in_expression and query.is_query))
        else:
            self._open[-1].named[query.name] = Expanded(query.parts, query.tables, query.levels, query.nested)

    def _is_keyword(self, token: Token, index: int) -> bool:
        top, before = self._open[-1], self._tokens[index - 1] if index else None
        first = before is None or before.is_symbol("(")
        if token.is_word(*_BEGINS_QUERY) and (first or not self._table_next):
            top.is_query, top.in_from, self._table_next = True, False, False
        elif token.is_word("lateral") and self._table_next:
            pass
        elif (self._table_next and not first) or (
            before is not None and (before.is_word("as") or before.is_symbol("."))
        ):
            return False  # any word is a name there
        elif token.is_word(*_ENDS_FROM):
            top.in_from = self._table_next = False
        elif token.is_word("recursive") and before is not None and before.is_word("with"):
            top.recursive = True
        elif token.is_word("from"):
            if first or (top.is_query and not self._is_distinct_from(index)):  # not in extract(year FROM x)
                top.is_query = top.in_from = self._table_next = True
        elif token.is_word("join"):
            self._table_next = True
        else:
            return False
        return True

    def _is_distinct_from(self, index: int) -> bool:
        """Tell whether FROM is that of `IS [NOT] DISTINCT FROM`."""
        before = self._tokens[max(0, index - 2) : index]
        return len(before) == 2 and before[1].is_word("distinct") and before[0].is_word("is", "not")

    def _table(self, index: int) -> int:
        """Take the table that is named from a token on; return the index after it."""
        self._table_next = False
        parts = list(self._parts(index))
        after = index + max(1, 2 * len(parts) - 1)
        called = after < len(self._tokens) and self._tokens[after].is_symbol("(")
        if parts and not called:
            self._take(parts)
        return after

    def _parts(self, index: int) -> Iterator[str]:
        """Yield the parts of a name; a text in single quotes is one too."""
        while index < len(self._tokens):
            token = self._tokens[index]
            part = token.text if token.kind is Kind.STRING else identifier(token)
            if part is None:
                return
            yield part
            if index + 1 >= len(self._tokens) or not self._tokens[index + 1].is_symbol("."):
                return
            index += 2

    def _take(self, parts: Sequence[str]) -> None:
        if len(parts) == 1:
            for query in reversed(self._open):
                if parts[0] in query.named:
                    self._open[-1].add(query.named[parts[0]])
                    return
        try:
            name = table_name(parts)
        except SqlError:  # of another catalog; whoever plans the query says so
            return
        self._open[-1].tables[name] += 1
        self._open[-1].levels.setdefault(name, 0)
        self._seen.add(name)
