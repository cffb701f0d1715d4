"""Rewrite FETCH FIRST, standard SQL's spelling of LIMIT."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit


def fetch_first(source: Source) -> Iterator[Edit]:
    """Rewrite `… FETCH FIRST 5 ROWS ONLY` as `… LIMIT 5`; DataFusion rejects WITH TIES and PERCENT."""
    for index, token in enumerate(source.tokens):
        if not token.is_word("fetch") or not source.is_word(index + 1, "first", "next"):
            continue
        at = index + 2
        count = "1"
        if not source.is_word(at, "row", "rows"):
            after = source.closing.get(at, at) + 1
            count, at = source.text(at, after), after
        if source.is_word(at, "row", "rows") and source.is_word(at + 1, "only"):
            yield Edit(token.start, source.tokens[at + 1].end, f"LIMIT {count}")
