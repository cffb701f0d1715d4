"""Rewrite TOP, SQL Server's spelling of LIMIT."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.keywords import SET_OPERATIONS
from flightllm.sql.tokens import TokenKind

_SETS = (*SET_OPERATIONS, "minus")
_AFTER_SETS = ("order", "limit", "offset", "fetch")


def top(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT TOP 5 a FROM t` as `SELECT a FROM t LIMIT 5`; DataFusion rejects PERCENT and WITH TIES."""
    for select in source.selects:
        index = source.first_item(select.start)
        if not source.is_word(index, "top"):
            continue
        after = source.closing.get(index + 1, index + 1) + 1
        counted = source.tokens[index + 1].kind in {TokenKind.NUMBER, TokenKind.PLACEHOLDER} or source.is_symbol(
            index + 1, "("
        )
        if not counted or after >= len(source.tokens) or source.is_word(after, "percent", "with", "from"):
            continue
        if source.is_symbol(after, ",") or source.is_symbol(after, "."):
            continue
        count = source.text(index + 1, after).strip("()")
        yield Edit(source.tokens[index].start, source.tokens[after].start, "")
        yield from _limited(source, select.start, count)


def _limited(source: Source, select: int, count: str) -> Iterator[Edit]:
    """Yield the LIMIT at the end of a query; a part of a UNION gets parentheses, because the limit is its own."""
    end = source.end_of_query(select)
    marks = [i for i in range(_begin(source, select), end) if _is_at_depth(source, i, select, end)]
    sets = [i for i in marks if source.is_word(i, *_SETS)]
    if not sets:
        yield Edit(source.tokens[end - 1].end, source.tokens[end - 1].end, f" LIMIT {count}")
        return
    stop = next((i for i in sets if i > select), end)
    if stop == end:
        stop = next((i for i in marks if i > select and source.is_word(i, *_AFTER_SETS)), end)
    place = source.tokens[stop - 1].end
    yield Edit(source.tokens[select].start, source.tokens[select].start, "(")
    yield Edit(place, place, f" LIMIT {count})")


def _begin(source: Source, select: int) -> int:
    return max((start for start, end in source.closing.items() if start < select < end), default=-1) + 1


def _is_at_depth(source: Source, index: int, select: int, end: int) -> bool:
    """Return whether a token is at the depth of its SELECT, outside any inner parentheses."""
    begin = _begin(source, select)
    return not any(begin <= a < index < b <= end for a, b in source.closing.items() if not a < select < b)
