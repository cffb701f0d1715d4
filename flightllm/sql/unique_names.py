"""Unique names for the columns of an INSERT's query.

INSERT matches columns by position, but DataFusion rejects two columns of the same name.
"""

from collections.abc import Iterator, Sequence

from flightllm.common.names import quoted
from flightllm.sql.keywords import ENDS_EXPRESSION, ENDS_FROM, SET_OPERATIONS
from flightllm.sql.row_changes import outside, split_list
from flightllm.sql.tokens import Token, TokenKind, tokenize

SAME_NAME = "unique expression names"
"""A part of DataFusion's error message for two columns of the same name."""
_SETS = (*SET_OPERATIONS, "all", "distinct")
_ENDS = ("from", *ENDS_FROM)
_NO_ALIAS = (*ENDS_EXPRESSION, "unknown", "day", "month", "year", "hour", "minute", "second")
_OPERATORS = (
    *(
        "and",
        "or",
        "not",
        "is",
        "in",
        "between",
        "like",
        "ilike",
        "similar",
        "to",
        "collate",
        "zone",
        "distinct",
        "all",
    ),
    *("when", "then", "else", "case", "from", "escape"),
)


def with_unique_names(query: str) -> str:
    """Return a query with a different name for each expression without an alias; an existing alias stays.

    `SELECT id, 0, 0 FROM t` → `SELECT id AS "column 1", 0 AS "column 2", 0 AS "column 3" FROM t`
    """
    tokens = tokenize(query)
    after = sorted(place for start in _selects(tokens) for place in _unnamed(tokens, start))
    parts, end = list[str](), 0
    for number, place in enumerate(after, 1):
        parts += (query[end:place], f" AS {quoted(f'column {number}')}")
        end = place
    return "".join([*parts, query[end:]])


def _selects(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the index of each SELECT of the query itself; each part of a UNION has its own SELECT."""
    own, depth = 0, 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        begins = before is None or before.is_word(*_SETS) or before.is_symbol("(")
        if token.is_symbol("("):
            own += begins and own == depth and (before is None or not before.is_symbol("(") or own > 0)
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
            own = min(own, depth)
        elif token.is_word("select") and depth == own:
            yield index


def _unnamed(tokens: Sequence[Token], start: int) -> Iterator[int]:
    """Yield the offset where each expression without an alias ends in the list of a SELECT."""
    start += 1
    if start < len(tokens) and tokens[start].is_word("distinct", "all"):
        start += 1
        if start < len(tokens) and tokens[start].is_word("on"):
            return
    free = list(outside(tokens, start, len(tokens)))
    stop = next((i for i in free if tokens[i].is_word(*_ENDS) and not tokens[i - 1].is_word("distinct")), None)
    if stop is None:
        stop = next((i for i in range(start, len(tokens)) if _closes(tokens, start, i)), len(tokens))
    for item in split_list(tokens[start:stop]):
        if item and not item[-1].is_symbol("*") and not _has_alias(item):
            yield item[-1].end


def _closes(tokens: Sequence[Token], start: int, index: int) -> bool:
    depth = sum(t.is_symbol("(") - t.is_symbol(")") for t in tokens[start : index + 1])
    return depth < 0


def _has_alias(item: Sequence[Token]) -> bool:
    last = item[-1]
    if len(item) < 2 or last.kind not in {TokenKind.WORD, TokenKind.QUOTED}:
        return False
    before = item[-2]
    if before.is_word("as"):
        return True
    if last.is_word(*_NO_ALIAS) or before.is_word(*_OPERATORS):
        return False
    return before.kind is not TokenKind.SYMBOL or before.text in {")", "]"}
