"""Rewrite SUMMARIZE of a table as SUMMARIZE of a query."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit

_QUERIES = ("select", "with", "values", "from", "summarize", "describe", "desc", "show", "table", "pivot", "unpivot")


def summarize(source: Source) -> Iterator[Edit]:
    """Rewrite `SUMMARIZE t` as `SUMMARIZE SELECT * FROM t`, also after EXPLAIN."""
    at = 0
    while source.is_word(at, "explain", "analyze", "verbose"):
        at += 1
    if not source.is_word(at, "summarize") or at + 1 >= len(source.tokens):
        return
    at += 1
    if not source.is_symbol(at, "(") and not source.is_symbol(at, ";") and not source.is_word(at, *_QUERIES):
        start = source.tokens[at].start
        yield Edit(start, start, "SELECT * FROM ")
