"""Quote words that PostgreSQL takes as names of columns, and DataFusion's parser does not."""

from collections.abc import Iterator

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.types import column_list
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.column_lists import NESTED, column_ranges
from flightllm.sql.keywords import ENDS_EXPRESSION, ENDS_FROM, JOIN_KINDS
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import TokenKind

_CALLED = ("exists", "trim", "values")
"""Words that are syntax before a bracket, and names of columns elsewhere."""
_IN_QUERIES = (*_CALLED, "cluster", "exclude", "explain", "interval", "update", "view")
_LABELS = (*_IN_QUERIES, "between", "match", "operator")
"""Words that are the name of a column of the result without AS, as in `SELECT a exclude FROM t`."""
_IN_TABLES = ("exclude", "index", "key", "update", "view")
WORDS = frozenset(_LABELS + _IN_TABLES)
"""Words that are names of columns in some places and syntax in others."""
_STATEMENTS = ("select", "with", "insert", "update", "delete", "merge", "create", "explain", "values")
_NO_OPERAND = frozenset((*EXPRESSION_FOLLOWS, *ENDS_FROM, *ENDS_EXPRESSION, *JOIN_KINDS, "as", "asc", "desc", "join"))
"""Words after `interval` that do not begin the number of days in `INTERVAL a DAY`."""
_UNITS = frozenset(
    unit + ending
    for unit in ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
    for ending in ("", "s")
)
_VALUES = (TokenKind.STRING, TokenKind.LITERAL, TokenKind.NUMBER, TokenKind.PLACEHOLDER)
_TEXT_CALLS = ("substring", "overlay")
"""Functions in whose brackets FOR is before a value."""


def column_words(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT a, exclude FROM t` as `SELECT a, "exclude" FROM t`, and `(key INT)` as `("key" INT)`.

    A word stays if it is syntax, as in `KEY (a)`, `EXCLUDE USING …` and `DO UPDATE SET …`.
    """
    if not source.is_word(0, *_STATEMENTS):
        return
    opening = column_list(source) if source.is_word(0, "create") else None
    places = _in_queries(source) if opening is None else _in_tables(source, opening)
    for index in places:
        token = source.tokens[index]
        yield Edit(token.start, token.end, quoted(token.text.lower()))


def _in_tables(source: Source, opening: int) -> Iterator[int]:
    """Yield the names of columns in the list of CREATE TABLE: a type follows them."""
    inner = source.tokens[opening : source.closing.get(opening, opening) + 1]
    for first, last in column_ranges(inner):
        index = opening + first
        if source.is_word(index, *_IN_TABLES) and last - first > 1 and _is_type(source, index + 1):
            yield index
    for index in range(opening + 1, source.closing.get(opening, opening)):
        if source.is_word(index, *_IN_TABLES) and _is_in_key(source, index):
            yield index


def _is_in_key(source: Source, index: int) -> bool:
    """Return whether a token names a column of a key, as in `PRIMARY KEY (a, update)`."""
    around = source.scopes.around[index]
    alone = source.tokens[index - 1].text in {"(", ","} and source.tokens[index + 1].text in {")", ","}
    return alone and around is not None and source.is_word(around - 1, "key", "unique")


def _is_type(source: Source, index: int) -> bool:
    """Return whether a type is at a token; `name (a)` and `USING BTREE (a)` belong to an index."""
    if source.tokens[index].kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.is_word(index, "using", "with"):
        return False
    if not source.is_symbol(index + 1, "("):
        return not source.is_word(index + 1, "using")
    return source.tokens[index + 2].kind is not TokenKind.QUOTED and source.tokens[index + 2].text[:1].isdigit()


def _in_queries(source: Source) -> Iterator[int]:
    """Yield the names of columns among expressions, in lists, before the `=` of SET, and of the result."""
    for index, token in enumerate(source.tokens):  # an INSERT can have 100,000 tokens
        if not index or token.kind is not TokenKind.WORD or token.text.lower() not in _LABELS:
            continue
        is_value = token.is_word(*_IN_QUERIES) and _begins_value(source, index) and not _is_syntax(source, index)
        if is_value or _is_label(source, index):
            yield index


def _begins_value(source: Source, index: int) -> bool:
    """Return whether a value, or a name in a list, can begin at a token."""
    before = source.tokens[index - 1]
    if before.kind is TokenKind.SYMBOL:
        return before.text not in {".", ")", "]", "}", "::"} or source.ends_distinct_on(index - 1)
    if before.is_word("for"):  # FOR UPDATE
        opening = source.scopes.around[index]
        return opening is not None and source.is_word(opening - 1, *_TEXT_CALLS)
    return before.is_word(*EXPRESSION_FOLLOWS)


def _is_syntax(source: Source, index: int) -> bool:
    """Return whether what is around a word makes it a part of the syntax."""
    if index + 1 == len(source.tokens):
        return False
    token, after = source.tokens[index], source.tokens[index + 1]
    if after.kind in _VALUES:
        return True
    match token.text.lower():
        case "interval":
            return _is_span(source, index) or _is_in_type(source, index)
        case "update":  # DO UPDATE SET …, and WITH q AS (UPDATE t AS a SET …)
            _, end = read_parts(source.tokens, index + 1)
            return any(source.is_word(at, "set") for at in (index + 1, end, end + 1, end + 2))
        case "exclude" if source.is_symbol(index - 1, "*") and _is_star(source, index - 1):
            return True
        case "exists" if source.is_word(index - 1, "not") and source.is_word(index - 2, "if"):
            return True
        case "explain" if after.is_word(*_STATEMENTS, "analyze", "verbose", "format"):
            return True
        case "cluster":
            return after.is_word("by")
        case word:
            return after.is_symbol("(") or (word == "values" and after.is_word("row"))


def _is_span(source: Source, index: int) -> bool:
    """Return whether INTERVAL begins a span: `INTERVAL (a) DAY`, `INTERVAL -1 DAY`, and `INTERVAL f(a) DAY`."""
    after = source.tokens[index + 1]
    if after.is_symbol("("):
        return True
    if after.kind is TokenKind.SYMBOL:
        return after.text in {"-", "+"} and source.is_word(index + 3, *_UNITS)
    if after.is_word(*_NO_OPERAND):
        return False
    _, end = read_parts(source.tokens, index + 1)
    if source.is_symbol(end, "("):
        end = source.closing.get(end, end) + 1
    return source.is_word(end, *_UNITS)


def _is_in_type(source: Source, index: int) -> bool:
    """Return whether a token is between the angle brackets of a type, as in `MAP<VARCHAR, INTERVAL>`."""
    start, angles = source.scopes.around[index], 0
    for at in range(1 if start is None else start + 1, index):
        if source.is_symbol(at, "<") and (angles or source.is_word(at - 1, *NESTED)):
            angles += 1
        elif angles and source.tokens[at].text in {">", ">>"}:
            angles -= len(source.tokens[at].text)
    return angles > 0


def _is_star(source: Source, index: int) -> bool:
    """Return whether a `*` means all columns."""
    before = source.tokens[index - 1]
    return before.is_word("select", "distinct", "all") or before.text in {",", ".", "("}


def _is_label(source: Source, index: int) -> bool:
    """Return whether a word is the name of a column of the result: after AS, or after a value."""
    before = source.tokens[index - 1]
    ends = index + 1 == len(source.tokens) or source.is_word(index + 1, "from", "into", *ENDS_FROM)
    if not ends and source.tokens[index + 1].text not in {",", ")", ";"}:
        return False
    clause = source.scopes.clauses[index - 1]  # UPDATE begins a clause itself
    if before.is_word("as"):
        return clause in {"select", "returning"}
    if clause != "select" or before.is_word(*EXPRESSION_FOLLOWS):
        return False
    return before.kind is not TokenKind.SYMBOL or before.text in {")", "]"}
