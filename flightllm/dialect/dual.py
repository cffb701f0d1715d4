"""Remove FROM DUAL, Oracle's spelling of a SELECT without a table."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit


def dual(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT 1 FROM DUAL` as `SELECT 1`, unless a table of that name exists."""
    if source.place.is_table(source.place.found("dual")):
        return
    for index, token in enumerate(source.tokens):
        named = (
            source.is_symbol(index + 1, ".") or source.is_symbol(index + 1, ",") or source.is_word(index + 1, "join")
        )
        if not token.is_word("dual") or not source.is_word(index - 1, "from") or named:
            continue
        if source.scopes.common_table(("dual",), index) is None:
            yield Edit(source.tokens[index - 1].start, token.end, "")
