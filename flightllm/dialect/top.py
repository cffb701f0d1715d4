"""Rewrite TOP, SQL Server's spelling of LIMIT."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.keywords import SET_OPERATIONS
from flightllm.sql.tokens import TokenKind

_SETS = (*SET_OPERATIONS, "minus")
_AFTER_SETS = ("order", "limit", "offset", "fetch")


def top(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT TOP 5 a FROM t` as `SELECT a FROM t LIMIT 5`; DataFusion rejects PERCENT and WITH TIES."""
    sets, tails = _places(source, _SETS), _places(source, _AFTER_SETS)
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
        around = source.scopes.around[select.start]
        yield from _limited(source, select.start, count, sets[around], tails[around])


def _places(source: Source, words: Sequence[str]) -> dict[int | None, list[int]]:
    """Return the places of some words in each query, by the bracket around the query."""
    places = defaultdict[int | None, list[int]](list)
    for index in range(len(source.tokens)):
        if source.is_word(index, *words):
            places[source.scopes.around[index]].append(index)
    return places


def _limited(source: Source, select: int, count: str, sets: Sequence[int], tails: Sequence[int]) -> Iterator[Edit]:
    """Yield the LIMIT at the end of a query; a part of a UNION gets parentheses, because the limit is its own.

    `sets` are the places of UNION and the like in the query, `tails` those of ORDER BY and LIMIT.
    """
    end = source.end_of_query(select)
    if not sets:
        yield Edit(source.tokens[end - 1].end, source.tokens[end - 1].end, f" LIMIT {count}")
        return
    later, tail = bisect(sets, select), bisect(tails, select)
    stop = sets[later] if later < len(sets) else tails[tail] if tail < len(tails) else end
    place = source.tokens[stop - 1].end
    yield Edit(source.tokens[select].start, source.tokens[select].start, "(")
    yield Edit(place, place, f" LIMIT {count})")
