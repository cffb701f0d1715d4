"""SUMMARIZE of a table as that of a query."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit

_QUERIES = ("select", "with", "values", "from", "summarize", "describe", "desc", "show", "table", "pivot", "unpivot")


def summarize(source: Source) -> Iterator[Edit]:
    """`SUMMARIZE t` → `SUMMARIZE SELECT * FROM t`, after EXPLAIN too."""
    at = 0
    while source.is_word(at, "explain", "analyze", "verbose"):
        at += 1
    if not source.is_word(at, "summarize") or at + 1 >= len(source.tokens):
        return
    at += 1
    if not source.is_symbol(at, "(") and not source.is_symbol(at, ";") and not source.is_word(at, *_QUERIES):
        start = source.tokens[at].start
        yield Edit(start, start, "SELECT * FROM ")
