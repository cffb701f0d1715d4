"""Measurement of how deep and how large the plan of an SQL text is, by its tokens only.

DataFusion walks a plan recursively. A plan that is too deep overflows the stack, and the process dies. Each construct
that makes a plan deeper has a weight, and the weights along the deepest path are added up.

The weights follow from a measurement on a stack of 2 MiB (8 MiB is usual). DataFusion died of 1,800 chained operators,
700 pipe steps or window functions, 2,800 UNIONs, 375 INTERSECTs, 900 chained WITH queries, and 800 joins. It survived a
list of 50,000 literals, and 20,000 rows of VALUES.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flightllm.common.stopping import CHECKED_TOKENS, check_wanted
from flightllm.sql.tokens import Token, TokenKind

WEIGHTS: Final = {
    "operators": 2,
    "set operations (UNION)": 8,
    "set operations (INTERSECT, EXCEPT)": 16,
    "WITH queries": 8,
    "joins": 16,
    "window functions": 8,
    "pipe steps": 8,
}
"""The depth that each construct adds to a plan."""
_OPERATOR_WORDS: Final = frozenset(
    {
        *("and", "or", "not", "is", "in", "like", "ilike", "rlike", "similar", "between", "div", "collate", "at"),
        "interval",
    }
)
_NO_OPERATORS: Final = frozenset("(),.;:]{}?") | {"=>"}
AFTER_FROM: Final = (
    *("where", "group", "having", "order", "limit", "window", "qualify", "select"),
    *("union", "intersect", "except"),
)
"""Words that end a FROM clause."""
_CASE_PARTS: Final = frozenset({"when", "then", "else", "end"})


@dataclass(frozen=True, slots=True)
class Complexity:
    """The depth and the size of the plan of a text.

    Example: `SELECT a + b, f(c AND d) FROM t JOIN u` is 18 deep: 16 for the join, and 2 for one operator. The operators
    `+` and `AND` are in different columns, so they are side by side in the plan, and only one of them counts. Its total
    is 21: 16 for the join, 2 for each operator, and 1 for the second column.
    """

    deepest: int
    """The sum of the weights along the deepest path."""
    counts: Mapping[str, int]
    """The number of each construct in `WEIGHTS`."""
    longest_list: int
    """The commas of the longest list of columns or keys."""
    cube_columns: int
    nested_parentheses: int
    """How deep parentheses and CASE are nested."""
    nested_queries: int
    nested_conditions: int
    """How deep CASE is nested in conditions of CASE."""

    @property
    def total(self) -> int:
        """Return the weight of the whole text, including the parts that are side by side in the plan."""
        return self.longest_list + sum(count * WEIGHTS[what] for what, count in self.counts.items())

    @property
    def heaviest(self) -> str:
        """Return the construct in `WEIGHTS` that adds the most weight."""
        return max(self.counts, key=lambda what: self.counts[what] * WEIGHTS[what])


def measure(tokens: Sequence[Token]) -> Complexity:
    """Return the complexity of a text."""
    return _Scanner().scan(tokens)


@dataclass(slots=True)
class _PathWeight:
    """The weight of the deepest path through one scope, which is a list of items between commas.

    Items are side by side in the plan, so only the heaviest one counts. Operators in one item are chained, and nested
    scopes of one item are side by side. Links, such as joins, are above all items.
    """

    links: int = 0
    chain: int = 0
    """The operators of the present item."""
    nested: int = 0
    """The heaviest nested scope of the present item."""
    heaviest_item: int = 0
    """The heaviest of the items before it."""

    def next_item(self) -> None:
        self.heaviest_item = max(self.heaviest_item, self.chain + self.nested)
        self.chain = self.nested = 0

    def total(self) -> int:
        return self.links + max(self.heaviest_item, self.chain + self.nested)


@dataclass(slots=True)
class _Scope:
    """The text between two parentheses, or between CASE and END."""

    is_case: bool = False
    is_query: bool = False
    in_from: bool = False
    is_cube: bool = False
    counts_commas: bool = False
    """Whether commas separate columns or keys. Commas of FROM are joins, and commas in a row of VALUES are cheap."""
    has_value_rows: bool = False
    in_condition: bool = False
    """Whether the present part of a CASE is a condition."""
    conditions_around: int = 0
    """The conditions of CASE around this scope."""
    queries_around: int = 0
    commas: int = 0
    path: _PathWeight = field(default_factory=_PathWeight)


class _Scopes:
    """The open scopes, and the greatest depth of nesting so far."""

    def __init__(self) -> None:
        self._open = [_Scope()]
        self.nested_parentheses = self.nested_queries = self.nested_conditions = 0

    @property
    def top(self) -> _Scope:
        """Return the innermost scope."""
        return self._open[-1]

    def open(self, scope: _Scope) -> None:
        around = self.top
        scope.conditions_around = around.conditions_around + (around.is_case and around.in_condition)
        scope.queries_around = around.queries_around + around.is_query
        self._open.append(scope)
        self.nested_parentheses = max(self.nested_parentheses, len(self._open) - 1)
        if scope.is_case:
            conditions = scope.conditions_around + scope.in_condition
            self.nested_conditions = max(self.nested_conditions, conditions)

    def begin_query(self) -> None:
        """Note that the innermost scope is a query."""
        self.top.is_query = True
        self.nested_queries = max(self.nested_queries, self.top.queries_around + 1)

    def close(self) -> None:
        """Close the innermost scope, and add its weight to the one around it."""
        closed = self._open.pop()
        around, weight = self.top.path, closed.path.total()
        if closed.is_query:  # planners merge the filters of nested queries into one chain
            around.links += weight
        else:
            around.nested = max(around.nested, weight)

    def close_parentheses(self) -> None:
        """Close the innermost parentheses, and each CASE without END in them. The text can have too many `)`."""
        while len(self._open) > 1 and self.top.is_case:
            self.close()
        if len(self._open) > 1:
            self.close()

    def close_all(self) -> _Scope:
        """Close all scopes, and return the outermost one."""
        while len(self._open) > 1:
            self.close()
        return self.top


class _Scanner:
    """A scanner that goes through the tokens of a text once and notes each construct in its scope."""

    def __init__(self) -> None:
        self._scopes = _Scopes()
        self._counts = dict.fromkeys(WEIGHTS, 0)
        self._longest_list = 0
        self._cube_columns = 0

    def scan(self, tokens: Sequence[Token]) -> Complexity:
        before: Token | None = None
        for index, token in enumerate(tokens):
            if not index % CHECKED_TOKENS:
                check_wanted()
            if token.kind is TokenKind.SYMBOL:
                self._symbol(token.text, before)
            elif token.kind is TokenKind.WORD:
                self._word(token.text.lower(), before)
            before = token
        outermost, scopes = self._scopes.close_all(), self._scopes
        return Complexity(
            deepest=outermost.path.total(),
            counts=self._counts,
            longest_list=self._longest_list,
            cube_columns=self._cube_columns,
            nested_parentheses=scopes.nested_parentheses,
            nested_queries=scopes.nested_queries,
            nested_conditions=scopes.nested_conditions,
        )

    def _symbol(self, symbol: str, before: Token | None) -> None:
        if symbol == "(":
            self._open_parentheses(before)
        elif symbol == ")":
            self._scopes.close_parentheses()
        elif symbol == ",":
            self._comma()
        elif symbol == "|>":
            self._link("pipe steps")
        elif symbol not in _NO_OPERATORS:
            self._operator()

    def _open_parentheses(self, before: Token | None) -> None:
        if before is not None and before.is_word("as", "materialized"):
            self._link("WITH queries")
        is_cube = before is not None and before.is_word("cube")
        is_grouping = before is not None and before.is_word("sets", "rollup")
        self._cube_columns += is_cube  # the first column; each comma adds another
        self._scopes.open(_Scope(is_cube=is_cube, counts_commas=self._scopes.top.has_value_rows or is_grouping))

    def _comma(self) -> None:
        scope = self._scopes.top
        self._cube_columns += scope.is_cube
        if scope.in_from:
            self._link("joins")
        elif scope.counts_commas:
            scope.commas += 1
            self._longest_list = max(self._longest_list, scope.commas)
        scope.path.next_item()

    def _word(self, word: str, before: Token | None) -> None:
        scope = self._scopes.top
        if word == "case" or (scope.is_case and word in _CASE_PARTS):
            self._case(word)
        elif word == "from" and not (before is not None and before.is_word("distinct")):  # not IS DISTINCT FROM
            scope.in_from = True
        elif word in {"join", "pivot", "unpivot"}:
            self._link("joins")
        elif word == "over":
            self._link("window functions")
        elif word in _OPERATOR_WORDS:
            self._operator()
        elif word == "with" and (before is None or before.is_symbol("(")):
            self._scopes.begin_query()
        elif word == "values":
            scope.counts_commas, scope.has_value_rows = False, True
        elif word in AFTER_FROM:
            self._clause(word)

    def _case(self, word: str) -> None:
        if word == "case":
            self._scopes.open(_Scope(is_case=True, in_condition=True))
        elif word == "end":
            self._scopes.close()
        else:
            self._scopes.top.path.next_item()
            self._scopes.top.in_condition = word == "when"

    def _clause(self, word: str) -> None:
        scope = self._scopes.top
        scope.in_from, scope.has_value_rows, scope.counts_commas = False, False, True
        if word == "select":
            scope.commas = 0
            self._scopes.begin_query()
        elif word == "union":
            self._link("set operations (UNION)")
        elif word in {"intersect", "except"}:
            self._link("set operations (INTERSECT, EXCEPT)")

    def _operator(self) -> None:
        self._counts["operators"] += 1
        self._scopes.top.path.chain += WEIGHTS["operators"]

    def _link(self, what: str) -> None:
        self._counts[what] += 1
        self._scopes.top.path.links += WEIGHTS[what]
