"""Remove [NOT] MATERIALIZED from WITH: it is about the plan, and DataFusion chooses this itself."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit


def materialized(source: Source) -> Iterator[Edit]:
    """Rewrite `WITH a AS MATERIALIZED (SELECT 1) …` as `WITH a AS (SELECT 1) …`."""
    for index, token in enumerate(source.tokens):
        first = index - source.is_word(index - 1, "not")
        if token.is_word("materialized") and source.is_word(first - 1, "as") and source.is_symbol(index + 1, "("):
            yield Edit(source.tokens[first].start, source.tokens[index + 1].start, "")
