"""`JOIN t ON vector_search('idx', q.text, top_k => 3)`: the pairs that a search finds, without a cross product."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flightllm.common.names import TableName, quoted, table_name
from flightllm.errors import AICallError
from flightllm.functions.call import MODEL, SEARCH
from flightllm.functions.registry import FunctionRegistry
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.scopes import CommonTable, Scopes, Table, read_scopes
from flightllm.sql.tokens import Kind, Token, position, tokenize

_JOIN_KINDS = ("inner", "left", "right", "full", "outer", "semi", "anti", "cross", "natural", "asof")
_LOGIC = ("on", "and", "or", "xor", "not")
_AFTER_ON = (
    *("where", "group", "having", "order", "limit", "offset", "fetch", "window", "qualify", "union", "intersect"),
    *("except", "minus", "on", "join", "global", "lateral", "tablesample", *_JOIN_KINDS),
)
_CLAUSES = ("select", "from", "where", "group", "having", "order", "qualify", "with", "values", "using", "join")
_VOLATILE = ("random", "rand", "uuid", "gen_random_uuid", "now", "today")
_VOLATILE_WORDS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")


@dataclass(frozen=True, slots=True)
class SemanticJoin:
    """A join whose condition is a search."""

    index: str
    pairs: str
    """SQL with the columns `query`, all that is searched for, and `__near`, the rows found for it."""
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
        AICallError: the join is not of the form `JOIN table [AS] alias ON search('index', expression, …) [AND …]`, or
            what is searched for asks the language model or may differ from run to run.
    """
    if not any(function.backend == SEARCH and function.name in sql.lower() for function in registry.ai_functions()):
        return sql
    tokens = tokenize(sql)
    reader = _Reader(sql, tokens, read_scopes(sql, tokens), registry)
    parts, start = [], 0
    for index in range(1, len(tokens) - 1):
        if not reader.is_search(index):
            continue
        if not reader.is_condition(index):
            reader.check_elsewhere(index)
            continue
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
    """A search: SQL of its query and of the pairs it finds; the index of its last token."""

    index: str
    query: str
    pairs: str
    text: str
    closing: int

    def join(self, table: TableName) -> SemanticJoin:
        return SemanticJoin(self.index, self.pairs, table, self.text)


class _Reader:
    """Reads the joins of one statement."""

    def __init__(self, sql: str, tokens: Sequence[Token], scopes: Scopes, registry: FunctionRegistry) -> None:
        self._sql = sql
        self._tokens = tokens
        self._scopes = scopes
        self._registry = registry
        self._opening = {end: start for start, end in scopes.closing.items()}

    def is_search(self, index: int) -> bool:
        """Tell whether a search is called at a token."""
        function = self._registry.get(self._tokens[index].text) if self._tokens[index].kind is Kind.WORD else None
        return function is not None and function.backend == SEARCH and self._tokens[index + 1].is_symbol("(")

    def is_condition(self, index: int) -> bool:
        """Tell whether the search at a token is the first condition of ON."""
        return self._is_on(index - 1)

    def check_elsewhere(self, index: int) -> None:
        """Check that the search at a token, which is not the first condition of ON, is no later one.

        Raises:
            AICallError: it is one; as a part of a condition, such as `f.id = search(…)[1]`, it may stand there.
        """
        before, after = index - 1, self._scopes.closing.get(index + 1, index) + 1
        while self._is_group(before) and self._scopes.closing.get(before) == after:
            before, after = before - 1, after + 1
        stands = self._tokens[before].is_word(*_LOGIC) or self._is_group(before)
        if stands and (self._ends(after) or self._tokens[after].is_word(*_LOGIC)) and self._is_in_on(before):
            name = self._tokens[index].text
            raise self._error(index, f"comes first in ON, outside parentheses: write ON {name}(…) AND (…)")

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
        first = last = join - self._tokens[join - 1].is_word("global")
        while self._tokens[first - 1].is_word(*_JOIN_KINDS):
            first -= 1
        if first < last and not self._tokens[first].is_word("inner", "left"):
            kind = " ".join(token.text.upper() for token in self._tokens[first : join + 1])
            raise self._error(
                index,
                f"finds pairs, {kind} would need all rows of {parts[-1]}: write the queries' table first, with JOIN or"
                " LEFT JOIN",
            )
        return _Joined(table_name(parts), alias, join + 1, after - 1)

    def call(self, index: int) -> _Call:
        """Return the search at a token."""
        if (closing := self._scopes.closing.get(index + 1)) is None:
            raise self._error(index, "has no closing parenthesis")
        self._check_rest(index, closing)
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
        if any(self._registry.knows(self._tokens[at].text) for at in self._called(index + 2, closing)):
            raise self._error(index, "searches after ON for an expression without AI calls: put these into a subquery")
        index_name = "'" + name.value.replace("'", "''") + "'"
        search = f"{self._tokens[index].text}({', '.join([index_name, 'query', *others])})"
        pairs = self._pairs(index, query, search)
        return _Call(name.value, self._text(*query), pairs, self._text(index, closing + 1), closing)

    def _check_rest(self, index: int, closing: int) -> None:
        """Check that nothing but AND follows a search in ON, with no OR beside it."""
        at, cases = closing + 1, 0
        right = self._ends(at) or self._tokens[at].is_word("and")
        while right and not self._ends(at):
            cases += self._tokens[at].is_word("case") - self._tokens[at].is_word("end")
            right = bool(cases) or not self._tokens[at].is_word("or", "xor")
            at = self._scopes.closing.get(at, at) + 1
        if not right:
            on = f"ON {self._tokens[index].text}(…)"
            raise self._error(
                index, f"after ON is a condition of its own: write {on}, or {on} AND (…) with any OR in the parentheses"
            )

    def _pairs(self, index: int, query: tuple[int, int], search: str) -> str:
        """Return SQL that searches for all queries: those in the one table that the query's columns are of."""
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
        needed = self._needed(index, found[0])
        for first, last in (query, found[0].subquery or (0, 0), *((self._opening[c.end], c.end) for c in needed)):
            self._check_read(index, first, last)
        text, rows = self._text(*query), self._table(index, found[0])
        source = f"SELECT DISTINCT {text} AS query FROM {rows} WHERE ({text}) IS NOT NULL"
        starts = sorted({common.start for common in needed})
        for start in starts[:0:-1]:
            source = f"{self._with(start, needed)} SELECT query FROM ({source}) AS queries"
        outer = f"{self._with(starts[0], needed)} " if starts else ""
        return f"{outer}SELECT query, {search} AS __near FROM ({source}) AS queries"

    def _needed(self, index: int, table: Table) -> list[CommonTable]:
        """Return the WITH queries that a table is made of, in their order."""
        visible = [c for c in self._scopes.common_tables if c.end <= index < self._end_around(c.start)]
        spans, needed = [table.subquery or (0, 0)], []
        names = {table.name}
        while spans:
            names |= {identifier(self._tokens[at]) for at in range(*spans.pop())}
            new = [common for common in visible if common.name in names and common not in needed]
            spans += [(self._opening[common.end], common.end) for common in new]
            needed += new
        return sorted(needed, key=lambda common: common.end)

    def _end_around(self, index: int) -> int:
        """Return the closing parenthesis of those around a token, or the end of the statement."""
        return self._scopes.closing.get(self._outwards(index, -1), len(self._tokens))

    def _with(self, start: int, needed: Sequence[CommonTable]) -> str:
        """Return the text of the WITH at a token, with the queries needed."""
        queries = ", ".join(self._definition(common) for common in needed if common.start == start)
        return f"WITH RECURSIVE {queries}" if self._tokens[start + 1].is_word("recursive") else f"WITH {queries}"

    def _definition(self, common: CommonTable) -> str:
        name = self._opening[common.end] - 1
        while not self._tokens[name].is_word("as"):
            name -= 1
        name = self._opening.get(name - 1, name) - 1  # before a list of columns
        return self._text(name, common.end + 1)

    def _check_read(self, index: int, first: int, last: int) -> None:
        """Check that tokens of what is searched for can be read twice, before the query and in it."""
        first_table = "write these rows to a table first: CREATE TABLE … AS"
        called = set(self._called(first, last))
        for at in range(first, last):
            token = self._tokens[at]
            name = token.text.lower()
            if at in called and self._asks_model(name):
                raise self._error(index, f"searches before the query runs, so not for answers of {name}: {first_table}")
            volatile = name in _VOLATILE and at in called
            if volatile or (token.is_word(*_VOLATILE_WORDS) and not self._tokens[at - 1].is_symbol(".")):
                raise self._error(index, f"searches for rows that {name} makes differ from run to run: {first_table}")
            if self._is_limit(at) and not self._is_ordered(at):
                raise self._error(
                    index,
                    f"searches for rows that {name.upper()} without ORDER BY makes differ from run to run: order them,"
                    f" or {first_table}",
                )

    def _called(self, first: int, last: int) -> Iterator[int]:
        """Yield the tokens that are names of functions called."""
        for at in range(first, last):
            if self._tokens[at + 1].is_symbol("(") and self._tokens[at].kind in {Kind.WORD, Kind.QUOTED}:
                yield at

    def _asks_model(self, name: str) -> bool:
        lifted = self._registry.lifted(name)
        function = lifted[1] if lifted else self._registry.get(name)
        return function is not None and function.backend == MODEL

    def _is_limit(self, at: int) -> bool:
        token, after = self._tokens[at], self._tokens[at + 1]
        if self._tokens[at - 1].is_symbol(".") or not token.is_word("limit", "offset", "fetch"):
            return False
        return after.kind is Kind.NUMBER or after.is_symbol("(") or after.is_word("first", "next", "case", "cast")

    def _is_ordered(self, index: int) -> bool:
        """Tell whether ORDER BY stands before a token, between the same parentheses."""
        at = index - 1
        while at >= 0 and at not in self._scopes.closing:
            if self._tokens[at].is_word("order") and self._tokens[at + 1].is_word("by"):
                return True
            at = self._opening.get(at, at) - 1
        return False

    def _outwards(self, index: int, outermost: int) -> int:
        """Return the opening parenthesis around a token, or `outermost`."""
        at = index - 1
        while at >= 0 and at not in self._scopes.closing:
            at = self._opening.get(at, at) - 1
        return at if at >= 0 else outermost

    def _is_on(self, at: int) -> bool:
        return self._tokens[at].is_word("on") and not self._tokens[at - 1].is_word("distinct")

    def _is_in_on(self, at: int) -> bool:
        """Tell whether the last clause begun before a token is ON; parentheses that only group are looked through."""
        while at >= 0 and not self._is_on(at):
            opened = at in self._scopes.closing and not self._is_group(at)
            if opened or (self._tokens[at].is_word(*_CLAUSES) and not self._tokens[at - 1].is_word("distinct")):
                return False
            at = self._opening.get(at, at) - 1
        return at >= 0

    def _is_group(self, at: int) -> bool:
        """Tell whether a parenthesis opens at a token that is a part of a condition, not of a call."""
        before = self._tokens[at - 1]
        return self._tokens[at].is_symbol("(") and (before.is_symbol("(") or before.is_word(*_LOGIC))

    def _ends(self, at: int) -> bool:
        """Tell whether the condition of an ON is over at a token."""
        if at >= len(self._tokens) or any(map(self._tokens[at].is_symbol, (")", ",", ";"))):
            return True
        called = at + 1 < len(self._tokens) and self._tokens[at + 1].is_symbol("(")
        if called and self._tokens[at].is_word("left", "right"):
            return False  # functions
        return self._tokens[at].is_word(*_AFTER_ON) and not self._tokens[at - 1].is_symbol(".")

    def _table(self, index: int, table: Table) -> str:
        columns = "" if table.columns is None else self._text(table.columns[0], table.columns[1] + 1)
        if table.subquery is not None:
            return f"{self._text(table.subquery[0], table.subquery[1] + 1)} AS {quoted(table.alias)}{columns}"
        if table.name is None:
            raise self._error(index, f"does not know the columns of {table.alias}: put it into a subquery")
        return f"{'.'.join(map(quoted, table.name.split('.')))} AS {quoted(table.alias)}{columns}"

    def _text(self, first: int, last: int) -> str:
        return self._sql[self._tokens[first].start : self._tokens[last - 1].end]

    def _error(self, index: int, message: str) -> AICallError:
        token = self._tokens[index]
        return AICallError(f"{token.text} at {position(self._sql, token.start)} {message}")
