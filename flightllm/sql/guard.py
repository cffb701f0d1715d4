"""Refuse SQL text that would overflow DataFusion's stack or stall its planner, before DataFusion sees it.

DataFusion walks a plan recursively and dies by a segmentation fault where it is too deep; its parser limits nesting
only. On a 2 MiB stack (8 MiB is usual) it died of 1,800 chained operators, 700 pipe steps or window functions, 2,800
UNIONs, 375 INTERSECTs, 900 chained CTEs and 800 joins; a list of 50,000 literals and 20,000 rows of VALUES do no harm.
So each of these has a weight, and `sql_terms` bounds the sum along the deepest path: with 2,000, 1,000 operators.

Other shapes keep the planner busy for minutes, uninterruptibly: queries nested in conditions or in WITH (each level of
IN doubles the time, 20 take 16 s), CASE in conditions of CASE (alike), nesting that exceeds the parser's own limit (it
then tries each level of CAST both ways), and lists of columns or sort keys (4,000 aggregates take 10 s, four times as
many for twice the number). These are counted too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from flightllm.common.limits import over_limit
from flightllm.common.names import STORED_SUFFIX
from flightllm.common.text import check_well_formed
from flightllm.config import LimitsConfig
from flightllm.errors import LimitExceededError, PermissionDeniedError, UnsupportedError
from flightllm.sql.expanding import expanded
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Kind, Token, position

_WEIGHTS = {
    "operators": 2,
    "set operations (UNION)": 8,
    "set operations (INTERSECT, EXCEPT)": 16,
    "WITH queries": 8,
    "joins": 16,
    "window functions": 8,
    "pipe steps": 8,
}
_ADVICE = {
    "operators": "write IN (…) instead of OR, or join a table of the values",
    "joins": "split the query with CREATE TABLE … AS",
}
_OPERATOR_WORDS = (
    "and",
    "or",
    "not",
    "is",
    "in",
    "like",
    "ilike",
    "rlike",
    "similar",
    "between",
    "div",
    "collate",
    "at",
    "interval",
)
_NO_OPERATORS = frozenset("(),.;:]{}?") | {"=>"}
_AFTER_FROM = (
    "where",
    "group",
    "having",
    "order",
    "limit",
    "window",
    "qualify",
    "select",
    "union",
    "intersect",
    "except",
)
_SIZED = {"repeat": 1, "lpad": 1, "rpad": 1, "array_repeat": 8, "list_repeat": 8, "array_resize": 8, "list_resize": 8}
"""Functions whose second argument says how many bytes, or elements of so many, one value has at least.

DataFusion's memory limit does not hold for them: what is computed, not written as a number, only the system stops.
"""
_LARGEST_VALUE = 8
"""One value may take such a part of a query's memory."""
_LONGEST_ARGUMENT = 50
"""Tokens after which the second argument is not looked for any more."""
_TABLE_FUNCTIONS = ("generate_series", "range")
_FOR_TABLE_FUNCTIONS = (
    *("abs", "cast", "try_cast", "now", "current_date", "today", "date_trunc", "to_timestamp", "make_date", "interval"),
    *("decimal", "numeric", "timestamp", "varchar", "length", "round", "floor", "ceil"),
)
"""What the arguments of a table function may call: nothing whose value is large."""
_CUBE_COLUMNS = 12
_NESTED, NESTED_QUERIES, _NESTED_CASES = 45, 16, 8
"""How deep parentheses and CASE, queries, and CASE in conditions of CASE may be nested."""


@dataclass(slots=True)
class _Frame:
    """One pair of parentheses, or CASE … END; `chain` and `inner` start anew at every comma."""

    opener: str
    is_query: bool = False
    in_from: bool = False
    in_cube: bool = False
    links: int = 0
    chain: int = 0
    inner: int = 0
    deepest: int = 0
    items: int = 0
    """Commas of the list it is, or of those of a query's clauses."""
    lists: bool = False
    """They count: those of rows in VALUES do not, nor those of FROM, which are joins."""
    rows: bool = False
    """It holds rows of VALUES."""
    condition: bool = False
    """Of CASE, the present part is a condition."""

    def next_segment(self) -> None:
        self.deepest = max(self.deepest, self.chain + self.inner)
        self.chain = self.inner = 0

    def total(self) -> int:
        return self.links + max(self.deepest, self.chain + self.inner)


@dataclass(slots=True)
class _Meter:
    """Adds up a statement's weights from its tokens."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_WEIGHTS, 0))
    cube_columns: int = 0
    items: int = 0
    nested: int = 0
    queries: int = 0
    cases: int = 0
    """The most of each at one place."""
    frames: list[_Frame] = field(default_factory=lambda: [_Frame("")])

    def read(self, tokens: Sequence[Token]) -> int:
        """Return the weight of the deepest path."""
        for index, token in enumerate(tokens):
            before = tokens[index - 1] if index else None
            if token.kind is Kind.SYMBOL:
                self._symbol(token, before)
            elif token.kind is Kind.WORD:
                self._word(token.text.lower(), before)
        while len(self.frames) > 1:
            self._close()
        return self.frames[0].total()

    def _symbol(self, token: Token, before: Token | None) -> None:
        top = self.frames[-1]
        if token.text == "(":
            if before is not None and before.is_word("as", "materialized"):
                self._link("WITH queries")
            cube = before is not None and before.is_word("cube")
            self.cube_columns += cube
            sets = before is not None and before.is_word("sets", "rollup")
            self._open(_Frame("(", in_cube=cube, lists=top.rows or sets))
        elif token.text == ")":
            self._close_parentheses()
        elif token.text == ",":
            self.cube_columns += top.in_cube
            if top.in_from:
                self._link("joins")
            elif top.lists:
                top.items += 1
                self.items = max(self.items, top.items)
            top.next_segment()
        elif token.text == "|>":
            self._link("pipe steps")
        elif token.text not in _NO_OPERATORS:
            self._operator()

    def _word(self, word: str, before: Token | None) -> None:
        top = self.frames[-1]
        if word == "case" or (top.opener == "case" and word in {"when", "then", "else", "end"}):
            self._case(word)
        elif word == "from" and not (before is not None and before.is_word("distinct")):
            top.in_from = True
        elif word in {"join", "pivot", "unpivot"}:
            self._link("joins")
        elif word == "over":
            self._link("window functions")
        elif word in _OPERATOR_WORDS:
            self._operator()
        elif word == "with" and (before is None or before.is_symbol("(")):
            self._begin_query()
        elif word == "values":
            top.lists, top.rows = False, True
        elif word in _AFTER_FROM:
            self._clause(word)

    def _case(self, word: str) -> None:
        if word == "case":
            self._open(_Frame("case", condition=True))
            conditions = sum(frame.opener == "case" and frame.condition for frame in self.frames)
            self.cases = max(self.cases, conditions)
        elif word == "end":
            self._close()
        else:
            self.frames[-1].next_segment()
            self.frames[-1].condition = word == "when"

    def _clause(self, word: str) -> None:
        top = self.frames[-1]
        top.in_from, top.rows, top.lists = False, False, True
        if word == "select":
            top.items = 0
            self._begin_query()
        elif word == "union":
            self._link("set operations (UNION)")
        elif word in {"intersect", "except"}:
            self._link("set operations (INTERSECT, EXCEPT)")

    def _begin_query(self) -> None:
        self.frames[-1].is_query = True
        self.queries = max(self.queries, sum(frame.is_query for frame in self.frames))

    def _open(self, frame: _Frame) -> None:
        self.frames.append(frame)
        self.nested = max(self.nested, len(self.frames) - 1)

    def _operator(self) -> None:
        self.counts["operators"] += 1
        self.frames[-1].chain += _WEIGHTS["operators"]

    def _link(self, what: str) -> None:
        self.counts[what] += 1
        self.frames[-1].links += _WEIGHTS[what]

    def _close_parentheses(self) -> None:
        while len(self.frames) > 1 and self.frames[-1].opener == "case":
            self._close()
        if len(self.frames) > 1:
            self._close()

    def _close(self) -> None:
        closed = self.frames.pop()
        top = self.frames[-1]
        if closed.is_query:  # planners merge the filters of nested queries into one chain
            top.links += closed.total()
        else:
            top.inner = max(top.inner, closed.total())


def check_text(sql: str, limits: LimitsConfig) -> None:
    """Check what holds for a text in any dialect, before it is split into tokens.

    Raises:
        LimitExceededError: it is too long.
        InvalidInputError: it is no text that Unicode allows.
    """
    check_well_formed(sql, "the SQL text")
    size = len(sql.encode())
    if size > limits.sql_bytes:
        instead = "upload the values as a table and join it"
        raise over_limit("sql_bytes", limits.sql_bytes, f"the SQL text has {size:,} bytes", instead)


def check_sql(text: str | ParsedText, limits: LimitsConfig) -> None:
    """Check that DataFusion can plan `sql` safely.

    Raises:
        LimitExceededError: the text is too long, chains too many terms, or makes a value that is too large; names the
            limit, the count and the key.
        SqlError: the text cannot be split into tokens.
        InvalidInputError: it is no text that Unicode allows.
        PermissionDeniedError: it has a hidden name of a table.
        UnsupportedError: it says TABLESAMPLE, which DataFusion parses and then ignores.
    """
    parsed = ParsedText.of(text)
    check_text(parsed.sql, limits)
    check_bound(parsed, limits)
    tokens = parsed.tokens
    meter = _Meter()
    weight = meter.read(tokens)
    if weight > limits.sql_terms:
        raise _too_deep(meter.counts, weight, limits.sql_terms)
    _check_nesting(meter)
    if meter.items >= limits.sql_terms:
        found = f"a list has {meter.items + 1:,} columns or keys"
        raise over_limit("sql_terms", limits.sql_terms, found, "split the query into several")
    if meter.cube_columns > _CUBE_COLUMNS:
        raise LimitExceededError(
            f"CUBE has {meter.cube_columns} columns; {_CUBE_COLUMNS} is the most: write GROUPING SETS"
        )


def check_bound(text: str | ParsedText, limits: LimitsConfig) -> None:
    """Check once more a text that `check_sql` let pass, now that it has values in place of its parameters.

    A value is a single literal, which adds no depth. But DataFusion takes one in single quotes for a name in FROM, and
    a call may be told by it how large its result is, or of which type.

    Raises:
        FlightLLMError: as `check_sql` does.
    """
    parsed = ParsedText.of(text)
    sql, tokens = parsed.sql, parsed.tokens
    _check_names(sql, tokens)
    _check_table_functions(sql, tokens)
    _check_sizes(sql, tokens, limits.memory_bytes)
    if any(token.is_word("with") for token in tokens) and expanded(tokens).parts > limits.sql_terms:
        found = f"the WITH queries use each other so often that the plan would have over {limits.sql_terms:,} parts"
        raise over_limit("sql_terms", limits.sql_terms, found, "keep one in a table with CREATE TABLE … AS")


_OPENING = (
    *("select", "distinct", "all", "where", "on", "having", "qualify", "by", "and", "or", "not", "in", "like", "is"),
    *("case", "when", "then", "else", "between", "from", "join", "lateral", "as", "values", "limit", "offset", "set"),
)
"""Words after which `sample` names a function, a column or a table."""


@dataclass(frozen=True, slots=True)
class Weight:
    """What a text weighs: along its deepest path, and altogether."""

    deepest: int
    total: int


def weigh(tokens: Sequence[Token]) -> Weight:
    """Return what a text weighs."""
    meter = _Meter()
    deepest = meter.read(tokens)
    return Weight(deepest, meter.items + sum(count * _WEIGHTS[what] for what, count in meter.counts.items()))


def _check_names(sql: str, tokens: Sequence[Token]) -> None:
    """Check that a text says nothing that is not to be planned at all; see `check_sql`."""
    for before, token in pairwise(tokens):
        if token.is_word("tablesample") and not before.is_symbol("."):
            raise UnsupportedError(
                f"TABLESAMPLE at {position(sql, token.start)} is not supported: write WHERE random() < 0.1 for a tenth"
            )
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.is_word("sample") and _ends_table(before) and _tells_size(after, sql):
            raise UnsupportedError(
                f"SAMPLE at {position(sql, token.start)} is not supported: write WHERE random() < 0.1 for a tenth"
            )
    for token in tokens:
        if STORED_SUFFIX in token.text:  # in single quotes too, which DataFusion takes for a name in FROM
            raise PermissionDeniedError(f"{token.text!r} is a name of the server's own: read the table by its name")
        if token.is_word("input_file_name"):
            raise UnsupportedError("input_file_name() is not supported: the server's files are its own")
    if any(token.is_word(*_ARROW_CASTS) for token in tokens):
        _check_arrow_types(tokens)


def _ends_table(token: Token) -> bool:
    """Tell whether a table of FROM can end here: at its name, its alias or the bracket of a subquery."""
    return (
        token.kind is Kind.QUOTED or token.is_symbol(")") or (token.kind is Kind.WORD and not token.is_word(*_OPENING))
    )


def _tells_size(token: Token, sql: str) -> bool:
    """Tell whether a sample's size begins here: `10`, `(10 ROWS)`, `BERNOULLI (5)`. Other brackets hold columns."""
    if token.is_symbol("("):
        return sql[token.end :].lstrip()[:1].isdigit()
    return token.kind is Kind.NUMBER or token.is_word("bernoulli", "system", "block", "row")


def _check_table_functions(sql: str, tokens: Sequence[Token]) -> None:
    """Check that nothing large is computed for a table function: DataFusion evaluates its arguments as it parses."""
    frames = [False]
    for index, (token, after) in enumerate(pairwise(tokens)):
        before = tokens[index - 1] if index else None
        if token.is_symbol("("):
            frames.append(False)
        elif token.is_symbol(")") and len(frames) > 1:
            frames.pop()
        elif token.is_word("from"):
            frames[-1] = True
        elif token.is_word(*_AFTER_FROM):
            frames[-1] = False
        starts = before is not None and (before.is_symbol(",") or before.is_word("from", "join", "lateral"))
        if token.is_word(*_TABLE_FUNCTIONS) and after.is_symbol("(") and frames[-1] and starts:
            _check_arguments(sql, token, tokens[index + 2 :])


def _check_arguments(sql: str, function: Token, tokens: Sequence[Token]) -> None:
    depth = 1
    for token, after in pairwise(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return
        called = token.kind is Kind.WORD and after.is_symbol("(")
        if called and not token.is_word(*_FOR_TABLE_FUNCTIONS):
            raise UnsupportedError(
                f"{token.text}() in the arguments of {function.text} at {position(sql, function.start)} is not"
                " supported: write its value, or SELECT unnest(range(…))"
            )


def _check_sizes(sql: str, tokens: Sequence[Token], memory_bytes: int) -> None:
    """Check that no call says by a number that its value alone is too large for the memory."""
    for index, token in enumerate(tokens[:-1]):
        if token.is_word(*_SIZED) and tokens[index + 1].is_symbol("("):
            arguments = tokens[index + 2 : index + 2 + _LONGEST_ARGUMENT]
            each = _SIZED[token.text.lower()]
            if token.text.lower().endswith("repeat") and arguments and arguments[0].kind is Kind.STRING:
                each = max(each, len(arguments[0].text.encode()))
            size = each * _count(arguments)
            if size > memory_bytes // _LARGEST_VALUE:
                found = f"{token.text} at {position(sql, token.start)} makes a value of {size:,} bytes, and one value"
                found += f" may take {memory_bytes // _LARGEST_VALUE:,} of a query's memory"
                raise over_limit("memory_bytes", memory_bytes, found, "make it shorter")


def _count(arguments: Sequence[Token]) -> int:
    """Return the number that a call's second argument is, 0 where it is anything else."""
    depth = 0
    for index, token in enumerate(arguments[:-2]):
        if token.is_symbol(",") and depth == 0:
            count, after = arguments[index + 1 : index + 3]
            whole = count.text.isdecimal() and (after.is_symbol(")") or after.is_symbol(","))
            return int(count.text[:18]) if whole else 0  # of more digits these are too many as well
        depth += token.is_symbol("(") + token.is_symbol("[") - token.is_symbol(")") - token.is_symbol("]")
        if depth < 0:
            return 0
    return 0


def _check_arrow_types(tokens: Sequence[Token]) -> None:
    """Check that no text which may name an Arrow type nests types deeper than DataFusion's stack."""
    for token in tokens:
        if token.kind is Kind.STRING and token.text.count("(") > _NESTED:
            raise LimitExceededError(f"a type at the most {_NESTED} levels deep can be given to arrow_cast")


def _check_nesting(meter: _Meter) -> None:
    for what, count, most in (
        ("queries are nested", meter.queries, NESTED_QUERIES),
        ("CASE is nested in conditions of CASE", meter.cases, _NESTED_CASES),
        ("parentheses and CASE are nested", meter.nested, _NESTED),
    ):
        if count > most:
            raise LimitExceededError(
                f"{what} {count} levels deep, {most} are the most: use WITH, or split the query into several"
            )


def _too_deep(counts: dict[str, int], weight: int, most: int) -> LimitExceededError:
    what = max(counts, key=lambda name: counts[name] * _WEIGHTS[name])
    advice = _ADVICE.get(what, "split the query into several")
    found = f"the SQL text is too deep: {counts[what]:,} {what}, {weight:,} terms in all"
    return over_limit("sql_terms", most, found, f"that is {most // _WEIGHTS[what]:,} {what}; {advice}")


_ARROW_CASTS = ("arrow_cast", "arrow_try_cast", "arrow_typeof")
