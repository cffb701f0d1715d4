"""Writer of the SQL that searches for each distinct query of a table before the statement runs."""

from collections.abc import Iterable
from typing import Final

from flightllm.common.names import quoted
from flightllm.functions.call import MODEL
from flightllm.functions.registry import FunctionRegistry
from flightllm.sql.changing import CLOCK, CLOCK_WORDS, RANDOM
from flightllm.sql.names import identifier
from flightllm.sql.scopes import CommonTable, Scopes, Table
from flightllm.sql.source_tokens import SourceTokens, TokenRange
from flightllm.sql.tokens import TokenKind

_NO_TOKENS: Final = TokenRange(0, 0)


class SearchQueries:
    """A writer of the SQL that searches for the queries of one statement.

    Example: `… FROM wishes w JOIN fruit f ON vector_search('names', w.wish)` gives
    `SELECT query, vector_search('names', query) AS __near FROM (SELECT DISTINCT w.wish AS query FROM "wishes" AS "w"
    WHERE (w.wish) IS NOT NULL) AS queries`. If `wishes` is a WITH query, a WITH with this query comes first.
    """

    def __init__(self, source: SourceTokens, scopes: Scopes, registry: FunctionRegistry) -> None:
        self._source = source
        self._tokens = source.tokens
        self._scopes = scopes
        self._repeatable = _RepeatableReads(source, registry)

    def pairs_sql(self, call: int, query: TokenRange, search: str, joined_alias: str) -> str:
        """Return SQL with the columns `query` and `__near`, and a row for each distinct query that is not NULL.

        `query` is the expression to search for. `search` is a call that searches for the column `query`. `joined_alias`
        is the table that the search is joined to; this table has no queries.

        Raises:
            AICallError: the columns of `query` belong to several tables, or the rows can differ from run to run.
        """
        table = self._table_of(call, query, joined_alias)
        needed = self._needed_common_tables(call, table)
        subquery = TokenRange(*table.subquery) if table.subquery else _NO_TOKENS
        for span in (query, subquery, *map(self._body, needed)):
            self._repeatable.check(call, span)
        expression, rows = self._source.text(query), self._from_item(call, table)
        queries = f"SELECT DISTINCT {expression} AS query FROM {rows} WHERE ({expression}) IS NOT NULL"
        # One WITH for each level of SELECTs; those of the outermost level are put before the whole search.
        starts = sorted({common.start for common in needed})
        for start in reversed(starts[1:]):
            queries = f"{self._with(start, needed)} SELECT query FROM ({queries}) AS queries"
        prefix = f"{self._with(starts[0], needed)} " if starts else ""
        return f"{prefix}SELECT query, {search} AS __near FROM ({queries}) AS queries"

    def _table_of(self, call: int, query: TokenRange, joined_alias: str) -> Table:
        """Return the table of the columns in a query: the table that the query names, or the only table in FROM."""
        tables = [table for table in self._scopes.of[call].tables if table.alias != joined_alias]
        named = {
            identifier(self._tokens[at])
            for at in range(*query)
            if self._tokens[at + 1].is_symbol(".") and not self._tokens[at - 1].is_symbol(".")
        }
        candidates = [table for table in tables if table.alias in named] or tables
        if len(candidates) != 1:
            raise self._source.error(
                call, "must search for columns of one table after ON: name the table, as in q.question"
            )
        return candidates[0]

    def _needed_common_tables(self, call: int, table: Table) -> list[CommonTable]:
        """Return the WITH queries that a table reads directly or through other WITH queries, in their order."""
        visible = [c for c in self._scopes.common_tables if c.end <= call < self._end_of_scope(c.start)]
        spans = [TokenRange(*table.subquery) if table.subquery else _NO_TOKENS]
        needed: list[CommonTable] = []
        names = {table.name}
        while spans:
            names |= {identifier(self._tokens[at]) for at in range(*spans.pop())}
            found = [common for common in visible if common.name in names and common not in needed]
            spans += map(self._body, found)
            needed += found
        return sorted(needed, key=lambda common: common.end)

    def _body(self, common: CommonTable) -> TokenRange:
        """Return the tokens of a WITH query from its opening parenthesis on."""
        return TokenRange(self._source.opening[common.end], common.end)

    def _end_of_scope(self, at: int) -> int:
        """Return where the bracket around a token closes, or the end of the statement."""
        bracket = self._source.bracket_around(at)
        end_of_statement = len(self._tokens)
        return end_of_statement if bracket is None else self._source.closing.get(bracket, end_of_statement)

    def _with(self, start: int, needed: Iterable[CommonTable]) -> str:
        """Return the text of the WITH at a token, with only the queries that are needed."""
        queries = ", ".join(self._definition(common) for common in needed if common.start == start)
        return f"WITH RECURSIVE {queries}" if self._tokens[start + 1].is_word("recursive") else f"WITH {queries}"

    def _definition(self, common: CommonTable) -> str:
        """Return the text of a WITH query: `name [(columns)] AS [[NOT] MATERIALIZED] (…)`."""
        as_word = self._source.opening[common.end] - 1
        while not self._tokens[as_word].is_word("as"):
            as_word -= 1
        name = as_word - 1
        if name in self._source.opening:  # this token closes a list of columns, which follows the name
            name = self._source.before(name)
        return self._source.text(TokenRange(name, common.end + 1))

    def _from_item(self, call: int, table: Table) -> str:
        """Return a table as an item of FROM, under its alias."""
        columns = "" if table.columns is None else self._source.text(_closed(table.columns))
        alias = f"{quoted(table.alias)}{columns}"
        if table.subquery is not None:
            return f"{self._source.text(_closed(table.subquery))} AS {alias}"
        if table.name is None:
            raise self._source.error(
                call, f"cannot know the columns of {table.alias}: write a subquery, (SELECT … FROM …) AS {table.alias}"
            )
        return f"{'.'.join(map(quoted, table.name.split('.')))} AS {alias}"


def _closed(brackets: tuple[int, int]) -> TokenRange:
    """Return the tokens from an opening bracket to the closing one, both included."""
    return TokenRange(brackets[0], brackets[1] + 1)


class _RepeatableReads:
    """A check that rows are the same each time.

    A semantic join reads the rows twice: once to search, and once in the statement.
    """

    def __init__(self, source: SourceTokens, registry: FunctionRegistry) -> None:
        self._source = source
        self._tokens = source.tokens
        self._registry = registry

    def check(self, call: int, span: TokenRange) -> None:
        """Check tokens that the search at `call` reads.

        Raises:
            AICallError: the tokens call the language model or a volatile function, or have LIMIT without ORDER BY.
        """
        use_table = "write these rows to a table first: CREATE TABLE … AS"
        calls = set(self._source.calls(span))
        for at in range(*span):
            name = self._tokens[at].text.lower()
            if at in calls and self._asks_model(name):
                raise self._source.error(
                    call, f"runs before the statement, so it cannot search for answers of {name}: {use_table}"
                )
            if self._is_volatile(at, is_call=at in calls):
                raise self._source.error(
                    call, f"cannot search for rows that {name} changes from run to run: {use_table}"
                )
            if self._is_limit(at) and not self._is_ordered(at):
                raise self._source.error(
                    call,
                    f"cannot search for rows that {name.upper()} without ORDER BY changes from run to run: order them,"
                    f" or {use_table}",
                )

    def _asks_model(self, name: str) -> bool:
        lifted = self._registry.lifted(name)
        function = lifted[1] if lifted else self._registry.get(name)
        return function is not None and function.backend == MODEL

    def _is_volatile(self, at: int, *, is_call: bool) -> bool:
        token = self._tokens[at]
        if is_call and token.text.lower() in RANDOM | CLOCK:
            return True
        return token.is_word(*CLOCK_WORDS) and not self._tokens[at - 1].is_symbol(".")

    def _is_limit(self, at: int) -> bool:
        """Return whether a token is the LIMIT, OFFSET or FETCH of a query, not a column of this name."""
        token, after = self._tokens[at], self._tokens[at + 1]
        if self._tokens[at - 1].is_symbol(".") or not token.is_word("limit", "offset", "fetch"):
            return False
        return after.kind is TokenKind.NUMBER or after.is_symbol("(") or after.is_word("first", "next", "case", "cast")

    def _is_ordered(self, limit: int) -> bool:
        """Return whether ORDER BY precedes a token within the same bracket."""
        at = limit - 1
        while at >= 0 and at not in self._source.closing:
            if self._tokens[at].is_word("order") and self._tokens[at + 1].is_word("by"):
                return True
            at = self._source.before(at)
        return False
