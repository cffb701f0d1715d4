"""`JOIN t ON vector_search('idx', q.text, top_k => 3)`: the pairs that a search finds, without a cross product."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flightllm.ai import SEARCH
from flightllm.errors import AICallError
from flightllm.functions.registry import FunctionRegistry
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.names import TableName, identifier, quoted, read_parts, table_name
from flightllm.sql.scopes import Scopes, Table, read_scopes
from flightllm.sql.tokens import Kind, Token, position, tokenize


@dataclass(frozen=True, slots=True)
class SemanticJoin:
    """A join whose condition is a search."""

    index: str
    queries: str
    """SQL with the one column `query`: all that is searched for."""
    search: str
    """SQL of the call that searches for `query`."""
    table: TableName
    """What is joined: the table that the index is over."""
    text: str
    """The call as the user wrote it."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The rows found for each query: a table, and its column that has the query."""

    table: str
    query: str


def replace_semantic_joins(sql: str, registry: FunctionRegistry, find: Callable[[SemanticJoin], Pairs]) -> str:
    """Return SQL that joins, for each search after ON, what `find` found for all queries; other text stays as it is.

    Raises:
        AICallError: the join is not of the form `JOIN table [AS] alias ON search('index', expression, …)`.
    """
    if not any(function.backend == SEARCH and function.name in sql.lower() for function in registry.ai_functions()):
        return sql
    tokens = tokenize(sql)
    reader = _Reader(sql, tokens, read_scopes(sql, tokens), registry)
    parts, start = [], 0
    for index in range(1, len(tokens) - 1):
        if reader.is_condition(index):
            joined, call = reader.joined(index), reader.call(index)
            pairs = find(call.join(joined.table))
            alias = quoted(joined.alias)
            parts += [
                sql[start : tokens[joined.first].start],
                f"{pairs.table} AS {alias}",
                sql[tokens[joined.last].end : tokens[index].start],
                f"({call.query}) = {alias}.{quoted(pairs.query)}",
            ]
            start = tokens[call.closing].end
    return "".join([*parts, sql[start:]])


@dataclass(frozen=True, slots=True)
class _Joined:
    """The table that is joined, and the tokens of its name and alias."""

    table: TableName
    alias: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A search: SQL of its query, of all queries, and of the call for one of these; the index of its last token."""

    index: str
    query: str
    source: str
    search: str
    text: str
    closing: int

    def join(self, table: TableName) -> SemanticJoin:
        return SemanticJoin(self.index, self.source, self.search, table, self.text)


class _Reader:
    """Reads the joins of one statement."""

    def __init__(self, sql: str, tokens: Sequence[Token], scopes: Scopes, registry: FunctionRegistry) -> None:
        self._sql = sql
        self._tokens = tokens
        self._scopes = scopes
        self._registry = registry

    def is_condition(self, index: int) -> bool:
        """Tell whether a search stands at a token as the first condition of ON."""
        function = self._registry.get(self._tokens[index].text) if self._tokens[index].kind is Kind.WORD else None
        if function is None or function.backend != SEARCH or not self._tokens[index + 1].is_symbol("("):
            return False
        return self._tokens[index - 1].is_word("on") and not self._tokens[index - 2].is_word("distinct")

    def joined(self, index: int) -> _Joined:
        """Return the table joined by the ON before a token."""
        join = next((at for at in range(index - 1, 0, -1) if self._tokens[at].is_word("join")), 0)
        parts, after = read_parts(self._tokens, join + 1)
        if self._tokens[after].is_word("as"):
            after += 1
        alias = parts[-1] if parts else None
        if after < index - 1:
            alias, after = identifier(self._tokens[after]), after + 1
        if not join or alias is None or after != index - 1:
            raise self._error(index, "joins a table by its name: JOIN table AS alias ON …")
        return _Joined(table_name(parts), alias, join + 1, after - 1)

    def call(self, index: int) -> _Call:
        """Return the search at a token."""
        if (closing := self._scopes.closing.get(index + 1)) is None:
            raise self._error(index, "has no closing parenthesis")
        name, query, others = None, None, []
        for place, (first, last) in enumerate(split_arguments(self._tokens, index + 2, closing, self._scopes.closing)):
            given = self._tokens[first:last]
            key = identifier(given[0]) if len(given) > 2 and given[1].is_symbol("=>") else None
            value = given[2:] if key else given
            if key == "index" or (key is None and place == 0):
                name = read_constant(value)
            elif key == "query" or (key is None and place == 1):
                query = (first + 2 * bool(key), last)
            else:
                others.append(self._text(first, last))
        if name is None or not isinstance(name.value, str) or query is None or query[0] >= query[1]:
            raise self._error(index, "takes the name of an index and what to search for")
        text = self._text(*query)
        if self._registry.may_be_in(text):
            raise self._error(index, "searches after ON for an expression without AI calls: put these into a subquery")
        index_name = "'" + name.value.replace("'", "''") + "'"
        search = f"{self._tokens[index].text}({', '.join([index_name, 'query', *others])})"
        source = self._source(index, query)
        return _Call(name.value, text, source, search, self._text(index, closing + 1), closing)

    def _source(self, index: int, query: tuple[int, int]) -> str:
        """Return SQL of all queries: of those in the one table that the query's columns are of."""
        alias = self.joined(index).alias
        tables = [table for table in self._scopes.of[index].tables if table.alias != alias]
        named = {
            identifier(self._tokens[at])
            for at in range(*query)
            if self._tokens[at + 1].is_symbol(".") and not self._tokens[at - 1].is_symbol(".")
        }
        found = [table for table in tables if table.alias in named] or tables[: len(tables) == 1]
        if len(found) != 1:
            raise self._error(index, "searches after ON for columns of one table, named with it as in q.question")
        text, rows = self._text(*query), self._table(index, found[0])
        return f"{self._with(index)}SELECT DISTINCT {text} AS query FROM {rows} WHERE ({text}) IS NOT NULL"

    def _table(self, index: int, table: Table) -> str:
        columns = "" if table.columns is None else self._text(table.columns[0], table.columns[1] + 1)
        if table.subquery is not None:
            return f"{self._text(table.subquery[0], table.subquery[1] + 1)} AS {quoted(table.alias)}{columns}"
        if table.name is None:
            raise self._error(index, f"does not know the columns of {table.alias}: put it into a subquery")
        return f"{'.'.join(map(quoted, table.name.split('.')))} AS {quoted(table.alias)}{columns}"

    def _with(self, index: int) -> str:
        visible = [common for common in self._scopes.common_tables if common.end <= index]
        return f"{self._text(visible[-1].start, visible[-1].end + 1)} " if visible else ""

    def _text(self, first: int, last: int) -> str:
        return self._sql[self._tokens[first].start : self._tokens[last - 1].end]

    def _error(self, index: int, message: str) -> AICallError:
        token = self._tokens[index]
        return AICallError(f"{token.text} at {position(self._sql, token.start)} {message}")
