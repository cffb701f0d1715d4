"""Guard that refuses SQL text before it can overflow DataFusion's stack or stall its planner.

`sql_terms` bounds the depth of the plan, as `complexity` measures it. With 2,000, a text can chain 1,000 operators.

Other texts keep the planner busy for minutes, and nothing can interrupt the planner. Each kind of text has a limit:

| text | cost |
|---|---|
| queries nested in conditions or in WITH | each level of IN doubles the time; 20 levels take 16 s |
| CASE nested in conditions of CASE | each level doubles the time |
| nesting beyond the parser's own limit | the parser tries each level of CAST both ways |
| lists of columns or sort keys | 4,000 aggregates take 10 s; twice as many take four times as long |
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from flightllm.common.limits import over_limit
from flightllm.common.names import STORED_SUFFIX
from flightllm.common.text import check_well_formed
from flightllm.config import LimitsConfig
from flightllm.errors import LimitExceededError, PermissionDeniedError, UnsupportedError
from flightllm.sql.complexity import AFTER_FROM, WEIGHTS, Complexity, measure
from flightllm.sql.expanding import expanded
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind, position

_ADVICE: Final = {
    "operators": "write IN (…) instead of OR, or join a table of the values",
    "joins": "split the query with CREATE TABLE … AS",
}
_BYTES_PER_UNIT: Final = {
    **dict.fromkeys(("repeat", "lpad", "rpad"), 1),
    **dict.fromkeys(("array_repeat", "list_repeat", "array_resize", "list_resize"), 8),
}
"""Functions whose second argument is a lower bound for the size of their value, in characters or in elements.

Each maps to the bytes of one character or element. DataFusion's memory limit does not bound these values. The guard
stops a number that is written in the text. Only the operating system stops a number that is computed.
"""
_LARGEST_VALUE: Final = 8
"""The divisor for the largest value: one value can take an eighth of a query's memory."""
_LONGEST_ARGUMENT: Final = 50
"""The number of tokens in which the guard looks for the second argument."""
_TABLE_FUNCTIONS: Final = ("generate_series", "range")
_FOR_TABLE_FUNCTIONS: Final = (
    *("abs", "cast", "try_cast", "now", "current_date", "today", "date_trunc", "to_timestamp", "make_date", "interval"),
    *("decimal", "numeric", "timestamp", "varchar", "length", "round", "floor", "ceil", "arrow_cast"),
)
"""Functions that the arguments of a table function can call: their values are never large."""
_CUBE_COLUMNS: Final = 12
_NESTED: Final = 45
"""How deep parentheses and CASE can be nested."""
_DOTS: Final = 50
"""How many parts a dotted name can have."""
NESTED_QUERIES: Final = 16
"""How deep queries can be nested."""
_NESTED_CONDITIONS: Final = 8
"""How deep CASE can be nested in conditions of CASE."""
_SAMPLES: Final = ("tablesample", "sample")
_TENTH: Final = (
    "write WHERE random() < 0.1 for a tenth; in the dialect snowflake write WHERE abs(random()) < 0.1 * power(2, 63)"
)
_ARROW_CASTS: Final = ("arrow_cast", "arrow_try_cast", "arrow_typeof")
_NO_TABLES: Final = (
    *("select", "distinct", "all", "where", "on", "having", "qualify", "by", "and", "or", "not", "in", "like", "is"),
    *("case", "when", "then", "else", "between", "from", "join", "lateral", "as", "values", "limit", "offset", "set"),
)
"""Words that cannot be a table. After such a word, `sample` is the name of a function, a column or a table."""


def check_text(sql: str, limits: LimitsConfig) -> None:
    """Check the length and the characters of a text in any dialect, before it is split into tokens.

    Raises:
        LimitExceededError: the text is too long.
        InvalidInputError: the text is not valid Unicode.
    """
    check_well_formed(sql, "the SQL text")
    size = len(sql.encode())
    if size > limits.sql_bytes:
        instead = "upload the values as a table and join it"
        raise over_limit("sql_bytes", limits.sql_bytes, f"the SQL text has {size:,} bytes", instead)


def check_sql(text: ParsedText, limits: LimitsConfig, *, by_datafusion: bool = True) -> None:
    """Check that DataFusion can plan a text safely; another engine has no limits for its functions.

    Raises:
        LimitExceededError: the text is too long, chains too many terms, or makes a value that is too large. The error
            names the limit, the count and the key.
        SqlError: the text cannot be split into tokens.
        InvalidInputError: the text is not valid Unicode.
        PermissionDeniedError: the text has a hidden name of a table.
        UnsupportedError: the text has TABLESAMPLE, which DataFusion parses and then ignores.
    """
    check_text(text.sql, limits)
    _check_dots(text)
    check_bound(text, limits, by_datafusion=by_datafusion)
    complexity = measure(text.tokens)
    if complexity.deepest > limits.sql_terms:
        raise _too_deep(complexity, limits.sql_terms)
    _check_nesting(complexity)
    if complexity.longest_list >= limits.sql_terms:
        found = f"a list has {complexity.longest_list + 1:,} columns or keys"
        raise over_limit("sql_terms", limits.sql_terms, found, "split the query into several")
    if complexity.cube_columns > _CUBE_COLUMNS:
        raise LimitExceededError(
            f"CUBE has {complexity.cube_columns} columns; the limit is {_CUBE_COLUMNS}: write GROUPING SETS"
        )


def check_bound(text: ParsedText, limits: LimitsConfig, *, by_datafusion: bool = True) -> None:
    """Check a text that passed `check_sql` again after values have replaced its parameters.

    A value is a single literal, which adds no depth. But in FROM, DataFusion reads a literal in single quotes as a
    name. And a literal can set the size or the type of a function's result.

    Raises:
        FlightLLMError: the same errors as from `check_sql`.
    """
    sql, tokens, words = text.sql, text.tokens, text.words
    _check_names(text)  # the words tell, for little time, which of the checks below can find anything
    if by_datafusion and not words.isdisjoint(_TABLE_FUNCTIONS):
        _check_table_functions(sql, tokens)
    if not words.isdisjoint(_BYTES_PER_UNIT):
        _check_sizes(sql, tokens, limits.memory_bytes)
    if "with" in words and expanded(tokens).parts > limits.sql_terms:
        found = f"the WITH queries use each other so often that the plan would have over {limits.sql_terms:,} parts"
        raise over_limit("sql_terms", limits.sql_terms, found, "keep one in a table with CREATE TABLE … AS")


def _check_dots(text: ParsedText) -> None:
    """Check that no name has more parts than DataFusion's parser reads; later steps would read each part in vain."""
    if text.sql.count(".") <= _DOTS:
        return
    last, count = -1, 0
    for index, token in enumerate(text.tokens):
        if token.kind is TokenKind.SYMBOL and token.text == ".":
            count = count + 1 if index - last <= 2 else 1
            last = index
            if count > _DOTS:
                raise LimitExceededError(
                    f"the name that ends at {position(text.sql, token.start)} has more than {_DOTS} parts: write a"
                    " shorter name"
                )


def _check_names(text: ParsedText) -> None:
    """Check that a text has no construct that DataFusion must never plan; see `check_sql`."""
    sql, tokens, words = text.sql, text.tokens, text.words
    if not words.isdisjoint(_SAMPLES):
        _check_samples(sql, tokens)
    hidden = next((token for token in tokens if STORED_SUFFIX in token.text), None)
    if hidden is not None:  # in single quotes too: DataFusion reads these as a name in FROM
        raise PermissionDeniedError(
            f"{hidden.text!r} is a name that only the server can use: read the table by its own name"
        )
    if "input_file_name" in words:
        raise UnsupportedError(
            "input_file_name() is not supported: the server does not show the paths of its files; leave it out"
        )
    if not words.isdisjoint(_ARROW_CASTS):
        _check_arrow_types(tokens)


def _check_samples(sql: str, tokens: Sequence[Token]) -> None:
    for before, token in pairwise(tokens):
        if token.is_word("tablesample") and not before.is_symbol("."):
            raise UnsupportedError(f"TABLESAMPLE at {position(sql, token.start)} is not supported: {_TENTH}")
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.is_word("sample") and _ends_table(before) and _tells_size(after, sql):
            raise UnsupportedError(f"SAMPLE at {position(sql, token.start)} is not supported: {_TENTH}")


def _ends_table(token: Token) -> bool:
    """Return whether a table of FROM can end here: with its name, its alias or the `)` of a subquery."""
    return (
        token.kind is TokenKind.QUOTED
        or token.is_symbol(")")
        or (token.kind is TokenKind.WORD and not token.is_word(*_NO_TABLES))
    )


def _tells_size(token: Token, sql: str) -> bool:
    """Return whether a sample size begins here: `10`, `(10 ROWS)` or `BERNOULLI (5)`. Other brackets hold columns."""
    if token.is_symbol("("):
        return sql[token.end :].lstrip()[:1].isdigit()
    return token.kind is TokenKind.NUMBER or token.is_word("bernoulli", "system", "block", "row")


def _check_table_functions(sql: str, tokens: Sequence[Token]) -> None:
    """Check that a table function computes nothing large: DataFusion evaluates its arguments while it parses."""
    in_from = [False]  # for each open pair of parentheses
    for index, (token, after) in enumerate(pairwise(tokens)):
        before = tokens[index - 1] if index else None
        if token.is_symbol("("):
            in_from.append(False)
        elif token.is_symbol(")") and len(in_from) > 1:
            in_from.pop()
        elif token.is_word("from"):
            in_from[-1] = True
        elif token.is_word(*AFTER_FROM):
            in_from[-1] = False
        starts = before is not None and (before.is_symbol(",") or before.is_word("from", "join", "lateral"))
        if token.is_word(*_TABLE_FUNCTIONS) and after.is_symbol("(") and in_from[-1] and starts:
            _check_arguments(sql, token, tokens[index + 2 :])


def _check_arguments(sql: str, function: Token, tokens: Sequence[Token]) -> None:
    depth = 1
    for token, after in pairwise(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return
        called = token.kind is TokenKind.WORD and after.is_symbol("(")
        if called and not token.is_word(*_FOR_TABLE_FUNCTIONS):
            raise UnsupportedError(
                f"{token.text}() in the arguments of {function.text} at {position(sql, function.start)} is not"
                " supported: write its value, or SELECT unnest(range(…))"
            )


def _check_sizes(sql: str, tokens: Sequence[Token], memory_bytes: int) -> None:
    """Check that no call has a number that makes its value too large for the memory."""
    for index, token in enumerate(tokens[:-1]):
        if token.is_word(*_BYTES_PER_UNIT) and tokens[index + 1].is_symbol("("):
            arguments = tokens[index + 2 : index + 2 + _LONGEST_ARGUMENT]
            each = _BYTES_PER_UNIT[token.text.lower()]
            if token.text.lower().endswith("repeat") and arguments and arguments[0].kind is TokenKind.STRING:
                each = max(each, len(arguments[0].text.encode()))
            size = each * _count(arguments)
            if size > memory_bytes // _LARGEST_VALUE:
                found = f"{token.text} at {position(sql, token.start)} makes a value of {size:,} bytes, and one value"
                found += f" can take {memory_bytes // _LARGEST_VALUE:,} of a query's memory"
                raise over_limit("memory_bytes", memory_bytes, found, "make it shorter")


def _count(arguments: Sequence[Token]) -> int:
    """Return the second argument of a call if it is a number, or else 0.

    Example: `repeat(lower(a), 500)` returns 500, and `repeat(a, b)` returns 0.
    """
    depth = 0
    for index, token in enumerate(arguments[:-2]):
        if token.is_symbol(",") and depth == 0:
            count, after = arguments[index + 1 : index + 3]
            whole = count.text.isdecimal() and (after.is_symbol(")") or after.is_symbol(","))
            return int(count.text[:18]) if whole else 0  # 18 digits are too many for any memory limit
        depth += token.is_symbol("(") + token.is_symbol("[") - token.is_symbol(")") - token.is_symbol("]")
        if depth < 0:
            return 0
    return 0


def _check_arrow_types(tokens: Sequence[Token]) -> None:
    """Check that no text literal nests Arrow types deeper than DataFusion's stack allows."""
    for token in tokens:
        if token.kind is TokenKind.STRING and token.text.count("(") > _NESTED:
            raise LimitExceededError(f"the type for arrow_cast is too deep: write a type at most {_NESTED} levels deep")


def _check_nesting(complexity: Complexity) -> None:
    for what, count, most in (
        ("queries are nested", complexity.nested_queries, NESTED_QUERIES),
        ("CASE is nested in conditions of CASE", complexity.nested_conditions, _NESTED_CONDITIONS),
        ("parentheses and CASE are nested", complexity.nested_parentheses, _NESTED),
    ):
        if count > most:
            raise LimitExceededError(
                f"{what} {count} levels deep; the limit is {most}: use WITH, or split the query into several"
            )


def _too_deep(complexity: Complexity, most: int) -> LimitExceededError:
    what = complexity.heaviest
    found = f"the SQL text is too deep: {complexity.counts[what]:,} {what}, {complexity.deepest:,} terms in all"
    advice = _ADVICE.get(what, "split the query into several")
    return over_limit("sql_terms", most, found, f"that is {most // WEIGHTS[what]:,} {what}; {advice}")
