"""Counter of the tables that a query reads after each use of a WITH query is replaced by its text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flightllm.common.names import TableName, table_name
from flightllm.errors import SqlError
from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.names import identifier, with_name
from flightllm.sql.tokens import Token, TokenKind

_BEGINS_QUERY: Final = ("select", "with", "values")


@dataclass(frozen=True, slots=True)
class Expanded:
    """The parts of a query after each use of a WITH query is replaced by its text.

    Example: `WITH v AS (FROM t, t) SELECT 1 FROM v, v` becomes `SELECT 1 FROM (FROM t, t), (FROM t, t)`. It has 3 parts
    and reads `t` 4 times.
    """

    parts: int
    """The number of queries: the query itself, and one for each use of a WITH query."""
    tables: Mapping[TableName, int]
    """How often each table is read: 0 times if only an unused WITH query reads the table."""
    levels: Mapping[TableName, int] = field(default_factory=dict)
    """For each table, the number of nested expressions around the deepest query that reads the table."""
    nested: int = 0
    """How deep queries are nested in expressions, with or without tables."""


def expanded(tokens: Sequence[Token]) -> Expanded:
    """Return the parts of a query, and how often it reads each table."""
    return _TableFinder(tokens).read()


@dataclass(slots=True)
class _Scope:
    """The tables and queries that the text between two parentheses reads."""

    name: str | None = None
    """The name of the WITH query, if the text is the body of a WITH query."""
    in_expression: bool = False
    """Whether the text is neither a WITH query nor in FROM."""
    parts: int = 0
    tables: Counter[TableName] = field(default_factory=Counter)
    levels: dict[TableName, int] = field(default_factory=dict)
    nested: int = 0
    with_queries: dict[str, Expanded] = field(default_factory=dict)
    """The WITH queries that the text begins with, and that its parts can use."""

    def add(self, part: "_Scope | Expanded", level: int = 0) -> None:
        """Add the tables that a part reads; `level` is 1 if the part is a query in an expression."""
        self.parts += part.parts
        self.nested = max(self.nested, level + part.nested)
        for table, times in part.tables.items():
            self.tables[table] += times
            self.levels[table] = max(self.levels.get(table, 0), level + part.levels.get(table, 0))

    def result(self) -> Expanded:
        return Expanded(self.parts, dict(self.tables), self.levels, self.nested)


class _ReadCounter:
    """A counter that counts the reads of each scope and resolves the names of WITH queries."""

    def __init__(self) -> None:
        self._scopes = [_Scope(parts=1)]
        self._seen: set[TableName] = set()
        """Every table that the text names, in unused WITH queries too."""

    def open(self, name: str | None, *, in_from: bool, recursive: bool) -> None:
        """Begin a scope: a WITH query of this name, a part of FROM, or an expression."""
        scope = _Scope(name, in_expression=name is None and not in_from, parts=int(name is not None))
        if name is not None and recursive:
            scope.with_queries[name] = Expanded(1, {})  # the query reads itself, which adds one part and no table
        self._scopes.append(scope)

    def close(self, *, is_query: bool) -> None:
        """End the innermost scope. A WITH query counts at each use; any other scope counts at once."""
        scope = self._scopes.pop()
        if scope.name is None:
            self._scopes[-1].add(scope, int(scope.in_expression and is_query))
        else:
            self._scopes[-1].with_queries[scope.name] = scope.result()

    def read(self, parts: Sequence[str]) -> None:
        """Count one use of a table or of a WITH query, named by the parts of its name."""
        if len(parts) == 1:
            for scope in reversed(self._scopes):  # the innermost WITH query of a name hides the others
                if parts[0] in scope.with_queries:
                    self._scopes[-1].add(scope.with_queries[parts[0]])
                    return
        try:
            table = table_name(parts)
        except SqlError:  # a name in another catalog; the planner raises the error
            return
        self._scopes[-1].tables[table] += 1
        self._scopes[-1].levels.setdefault(table, 0)
        self._seen.add(table)

    def result(self) -> Expanded:
        """Return the reads of the outermost scope, with a 0 for tables of unused WITH queries."""
        outermost = self._scopes[0]
        for table in self._seen - outermost.tables.keys():
            outermost.tables[table] = 0
        return outermost.result()


@dataclass(slots=True)
class _Position:
    """The state of the finder in the text between two parentheses."""

    is_query: bool = False
    in_from: bool = False
    recursive: bool = False
    """After WITH RECURSIVE."""


class _TableFinder:
    """A finder of the names of tables: at the start of each item of FROM, and after JOIN.

    `_table_next` is true at these places. In `SELECT a FROM t AS x, (u JOIN v)` it is true at `t`, `(`, `u` and `v`.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._open = [_Position()]
        self._counter = _ReadCounter()
        self._table_next = False

    def read(self) -> Expanded:
        index = 0
        while index < len(self._tokens):
            token = self._tokens[index]
            if token.kind is TokenKind.SYMBOL:
                self._symbol(token.text, index)
            elif not self._is_keyword(token, index) and self._table_next:
                index = self._table(index)
                continue
            index += 1
        while len(self._open) > 1:  # the text lacks a `)`
            self._close()
        return self._counter.result()

    def _symbol(self, symbol: str, index: int) -> None:
        top = self._open[-1]
        if symbol == "(":
            self._counter.open(with_name(self._tokens, index), in_from=self._table_next, recursive=top.recursive)
            self._open.append(_Position(in_from=self._table_next))
            return  # `_table_next` stays: in FROM, parentheses can enclose a table
        if symbol == ")" and len(self._open) > 1:
            self._close()
        elif symbol == "|>":
            top.in_from = False
        self._table_next = symbol == "," and self._open[-1].in_from

    def _close(self) -> None:
        self._counter.close(is_query=self._open.pop().is_query)

    def _is_keyword(self, token: Token, index: int) -> bool:
        """Return whether a word is a keyword here and not a name, and note the clause that it begins or ends."""
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
        elif token.is_word(*ENDS_FROM):
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
        """Return whether FROM belongs to `IS [NOT] DISTINCT FROM`."""
        before = self._tokens[max(0, index - 2) : index]
        return len(before) == 2 and before[1].is_word("distinct") and before[0].is_word("is", "not")

    def _table(self, index: int) -> int:
        """Read the name of a table that begins at a token; return the index after the name."""
        self._table_next = False
        parts = list(self._parts(index))
        after = index + max(1, 2 * len(parts) - 1)
        is_function = after < len(self._tokens) and self._tokens[after].is_symbol("(")
        if parts and not is_function:
            self._counter.read(parts)
        return after

    def _parts(self, index: int) -> Iterator[str]:
        """Yield the parts of a name: `a.b` has two. A text in single quotes is a part too, as in DataFusion."""
        while index < len(self._tokens):
            token = self._tokens[index]
            part = token.text if token.kind is TokenKind.STRING else identifier(token)
            if part is None:
                return
            yield part
            if index + 1 >= len(self._tokens) or not self._tokens[index + 1].is_symbol("."):
                return
            index += 2
