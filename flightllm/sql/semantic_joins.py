"""Rewriting of `JOIN t ON vector_search('idx', q.text, top_k => 3)` into a join without a cross product."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flightllm.common.names import TableName, quoted, table_name
from flightllm.functions.call import SEARCH
from flightllm.functions.registry import FunctionRegistry
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.keywords import JOIN_KINDS
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.nodes import Json, body, kind, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.search_queries import SearchQueries
from flightllm.sql.source_tokens import SourceTokens, TokenRange
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, parse


@dataclass(frozen=True, slots=True)
class SemanticJoin:
    """A join whose condition is a search."""

    index: str
    pairs: str
    """SQL with the columns `query`, the distinct queries, and `__near`, the rows found for each query."""
    table: TableName
    """The joined table, which the index must be over."""
    text: str
    """The text of the call, as the user wrote it."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A table with the rows found for each query, and its column that holds the query."""

    table: str
    query: str


def replace_semantic_joins(
    text: ParsedText, registry: FunctionRegistry, find: Callable[[SemanticJoin], Pairs]
) -> ParsedText:
    """Return SQL with each search after ON replaced by an equality with the rows that `find` found.

    `find` runs each search for all queries and stores the pairs in a table. Other text stays as it is.

    Example: the statement
        SELECT w.n, f.id FROM wishes w JOIN fruit f ON vector_search('names', w.wish, top_k => 1) AND f.id > 1
    becomes, if `find` returns `Pairs('"found"', "__query")`,
        SELECT w.n, f.id FROM wishes w JOIN "found" AS "f" ON (w.wish) = "f"."__query" AND f.id > 1

    | wishes: n | wish        | found: id | name        | __query     | row of the result |
    |-----------|-------------|-----------|-------------|-------------|-------------------|
    | 1         | a red apple | 1         | a red apple | a red apple | left out: id = 1  |
    | 2         | apple pie   | 6         | apple pie   | apple pie   | 2, 6              |
    | 3         | NULL        |           |             |             | no pair           |

    Raises:
        AICallError: the join is not of the form `JOIN table [AS] alias ON search('index', expression, …) [AND …]`, or
            the queries come from the language model or can differ from run to run.
    """
    sql = text.sql
    if not registry.may_search(sql):
        return text
    reader = _JoinReader(text, registry)
    parts, copied = [], 0
    for call in reader.searches():
        joined = reader.read_table(call)
        search = reader.read_search(call, joined.alias)
        pairs = find(SemanticJoin(search.index, search.pairs, joined.table, reader.text(search.span)))
        alias = quoted(joined.alias)
        parts += [
            sql[copied : reader.offset(joined.span.start)],
            f"{pairs.table} AS {alias}",
            sql[reader.end_offset(joined.span) : reader.offset(call)],
            f"({search.query}) = {alias}.{quoted(pairs.query)}",
        ]
        copied = reader.end_offset(search.span)
    return text.replaced("".join([*parts, sql[copied:]]))


@dataclass(frozen=True, slots=True)
class _JoinedTable:
    """The table after JOIN; `span` is the range of the tokens of its name and alias."""

    table: TableName
    alias: str
    span: TokenRange


@dataclass(frozen=True, slots=True)
class _Search:
    """A search after ON; `span` is the range of the tokens of the call."""

    index: str
    query: str
    """The expression to search for."""
    pairs: str
    """See `SemanticJoin.pairs`."""
    span: TokenRange


@dataclass(slots=True)
class _Arguments:
    """The arguments of a search, as the user wrote them."""

    index: TokenRange | None = None
    query: TokenRange | None = None
    others: list[TokenRange] = field(default_factory=list)


class _Conditions:
    """The calls that are conditions of ON in one statement, by the offsets of their names."""

    def __init__(self, tree: Tree) -> None:
        self.first = set[int]()
        """The calls that are the first condition of an ON, with nothing but AND beside it."""
        self.whole = set[int]()
        """The calls that are conditions by themselves, not a part of a condition such as `a = f(…)`."""
        for node in walk(tree.root):
            if kind(node) != "On" or not isinstance(body(node), dict):  # DISTINCT ON has a list
                continue
            first = body(node)
            while kind(first) == "BinaryOp" and body(first)["op"] == "And":
                first = body(first)["left"]
            for found in _conditions(body(node)):
                name = body(found)["name"] if kind(found) == "Function" else ()
                self.whole.update(start for start, _ in tree.spans(name))
                self.first.update(start for start, _ in tree.spans(name if found is first else ()))


def _conditions(condition: Json) -> Iterator[Json]:
    """Yield the conditions that AND, OR and NOT join; parentheses do not matter."""
    todo = [condition]
    while todo:
        found = todo.pop()
        fields = body(found)
        if kind(found) == "BinaryOp" and fields["op"] in {"And", "Or", "Xor"}:
            todo += [fields["left"], fields["right"]]
        elif kind(found) == "UnaryOp" and fields["op"] == "Not":
            todo.append(fields["expr"])
        elif kind(found) == "Nested":
            todo.append(fields)
        else:
            yield found


class _JoinReader:
    """A reader for the joins of one statement; it names a call by the index of the function's token."""

    def __init__(self, text: ParsedText, registry: FunctionRegistry) -> None:
        self._tokens = text.tokens
        scopes = text.scopes
        self._source = SourceTokens(text.sql, self._tokens, scopes.closing)
        self._conditions = _Conditions(parse(text) or Tree(text.sql, ()))
        self._queries = SearchQueries(self._source, scopes, registry)
        self._registry = registry

    def searches(self) -> Iterator[int]:
        """Yield the searches that come first after an ON.

        Raises:
            AICallError: a search is a later condition of ON.
        """
        for at in range(1, len(self._tokens) - 1):
            if not self._is_search(at):
                continue
            if self._tokens[at - 1].is_word("on") and not self._tokens[at - 2].is_word("distinct"):
                yield at
            elif self._tokens[at].start in self._conditions.whole:
                name = self._tokens[at].text
                raise self._source.error(at, f"must come first in ON, outside parentheses: write ON {name}(…) AND (…)")

    def _is_search(self, at: int) -> bool:
        function = self._registry.get(self._tokens[at].text) if self._tokens[at].kind is TokenKind.WORD else None
        return function is not None and function.backend == SEARCH and self._tokens[at + 1].is_symbol("(")

    def read_table(self, call: int) -> _JoinedTable:
        """Return the table that the ON before a call joins.

        Raises:
            AICallError: the join does not name a table, or the kind of join needs rows without a pair.
        """
        join = next((at for at in range(call - 1, 0, -1) if self._tokens[at].is_word("join")), 0)
        parts, after = read_parts(self._tokens, join + 1)
        if self._tokens[after].is_word("as"):
            after += 1
        alias = parts[-1] if parts else None
        on_word = call - 1
        if after < on_word:
            alias, after = identifier(self._tokens[after]), after + 1
        if not join or alias is None or after != on_word:
            raise self._source.error(call, "must join a table by its name: write JOIN table AS alias ON …")
        self._check_kind(call, join, parts[-1])
        return _JoinedTable(table_name(parts), alias, TokenRange(join + 1, after))

    def _check_kind(self, call: int, join: int, table: str) -> None:
        """Check that a join keeps no rows of its right table that have no pair, as RIGHT JOIN does."""
        first = last = join - self._tokens[join - 1].is_word("global")
        while self._tokens[first - 1].is_word(*JOIN_KINDS):
            first -= 1
        if first < last and not self._tokens[first].is_word("inner", "left"):
            kind = " ".join(token.text.upper() for token in self._tokens[first : join + 1])
            raise self._source.error(
                call,
                f"finds only pairs, but {kind} needs all rows of {table}: write the table of the queries first, with"
                " JOIN or LEFT JOIN",
            )

    def read_search(self, call: int, joined_alias: str) -> _Search:
        """Return the search at a call, which is joined to a table.

        Raises:
            AICallError: a word other than AND follows, or an argument is missing or calls an AI function. The server
                cannot read the queries before the statement runs.
        """
        closing = self._source.closing.get(call + 1)
        if closing is None:
            raise self._source.error(call, "has no closing parenthesis")
        name = self._tokens[call].text
        if self._tokens[call].start not in self._conditions.first:
            raise self._source.error(
                call,
                f"after ON must be a separate condition: write ON {name}(…), or ON {name}(…) AND (…) with any OR in the"
                " parentheses",
            )
        arguments = self._read_arguments(TokenRange(call + 2, closing))
        index = read_constant(self._tokens[slice(*arguments.index)]) if arguments.index else None
        if index is None or not isinstance(index.value, str) or not arguments.query:
            raise self._source.error(call, f"needs the name of an index and a query: write {name}('index', column)")
        if any(self._registry.knows(self._tokens[at].text) for at in self._source.calls(TokenRange(call + 2, closing))):
            raise self._source.error(call, "cannot search for AI calls after ON: write the AI calls in a subquery")
        index_literal = "'" + index.value.replace("'", "''") + "'"
        given = [index_literal, "query", *map(self._source.text, arguments.others)]
        pairs = self._queries.pairs_sql(call, arguments.query, f"{name}({', '.join(given)})", joined_alias)
        return _Search(index.value, self._source.text(arguments.query), pairs, TokenRange(call, closing + 1))

    def _read_arguments(self, within: TokenRange) -> _Arguments:
        """Sort arguments into the index, the query (by position or by name), and the others."""
        found = _Arguments()
        for position, (first, last) in enumerate(split_arguments(self._tokens, *within, self._source.closing)):
            is_named = last - first > 2 and self._tokens[first + 1].is_symbol("=>")
            key = identifier(self._tokens[first]) if is_named else None
            value = TokenRange(first + 2 if key else first, last)
            if key == "index" or (key is None and position == 0):
                found.index = value
            elif key == "query" or (key is None and position == 1):
                found.query = value
            else:
                found.others.append(TokenRange(first, last))
        return found

    def text(self, span: TokenRange) -> str:
        """Return the text of tokens."""
        return self._source.text(span)

    def offset(self, at: int) -> int:
        """Return the offset in the SQL where a token begins."""
        return self._tokens[at].start

    def end_offset(self, span: TokenRange) -> int:
        """Return the offset in the SQL where the last token of a span ends."""
        return self._tokens[span.end - 1].end
