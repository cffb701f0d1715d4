"""Quote words that PostgreSQL takes as names of columns, and DataFusion's parser does not."""

from collections.abc import Iterator

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.types import column_list
from flightllm.sql.column_lists import column_ranges
from flightllm.sql.tokens import TokenKind

_IN_QUERIES = ("cluster", "exclude", "exists", "explain", "interval", "trim", "update", "values", "view")
_IN_TABLES = ("exclude", "index", "key", "update", "view")
WORDS = frozenset(_IN_QUERIES + _IN_TABLES)
"""Words that are names of columns in some places and syntax in others."""
_STATEMENTS = ("select", "with", "insert", "update", "delete", "merge", "create", "explain")
_BEFORE = (
    *("select", "distinct", "where", "and", "or", "not", "on", "having", "by", "set", "when", "then", "else"),
    *("case", "between", "returning", "in", "like", "ilike"),
)
_AFTER = (
    *("from", "where", "and", "or", "is", "in", "like", "ilike", "between", "not", "as", "asc", "desc", "nulls"),
    *("then", "else", "end", "when", "group", "having", "order", "limit", "offset", "union", "intersect", "except"),
)
_LISTS = frozenset((",", "(", "="))
_OPERATORS = frozenset((*"+-*/%", "=", ">=", "<=", "<>", "!=", "<", ">", "||"))
_ENDS = frozenset((",", ")", ";", "::"))


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


def _is_type(source: Source, index: int) -> bool:
    """Return whether a type is at a token; `name (a)` and `USING BTREE (a)` belong to an index."""
    if source.tokens[index].kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.is_word(index, "using", "with"):
        return False
    if not source.is_symbol(index + 1, "("):
        return not source.is_word(index + 1, "using")
    return source.tokens[index + 2].kind is not TokenKind.QUOTED and source.tokens[index + 2].text[:1].isdigit()


def _in_queries(source: Source) -> Iterator[int]:
    """Yield the names of columns among expressions, in the list of INSERT, and before the `=` of SET."""
    for index, token in enumerate(source.tokens):
        if token.is_word(*_IN_QUERIES) and index and _ends_name(source, index) and _begins_name(source, index):
            yield index


def _begins_name(source: Source, index: int) -> bool:
    token, before = source.tokens[index], source.tokens[index - 1]
    if before.kind is TokenKind.SYMBOL:
        if token.is_word("interval") and before.text == "<":  # a list's type
            return False
        return before.text in _LISTS or before.text in _OPERATORS
    return before.is_word(*_BEFORE) or (before.is_word("as") and token.is_word("update", "view"))


def _ends_name(source: Source, index: int) -> bool:
    if index + 1 == len(source.tokens):
        return True
    after = source.tokens[index + 1]
    if after.kind is not TokenKind.SYMBOL:
        return after.is_word(*_AFTER)
    if source.is_word(index, "interval") and after.text in {"+", "-", ">"}:  # INTERVAL -1 DAY, and MAP<…, INTERVAL>
        return after.text == ">" and not source.is_symbol(index - 1, ",")
    return after.text in _ENDS or after.text in _OPERATORS
