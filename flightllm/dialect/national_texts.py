"""Rewrite literals of the national character set: all text is Unicode here."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.tokens import TokenKind


def national_texts(source: Source) -> Iterator[Edit]:
    """Rewrite `N'a'` as `'a'`."""
    for token in source.tokens:
        if token.kind is TokenKind.LITERAL and source.sql[token.start : token.start + 2] in {"N'", "n'"}:
            yield Edit(token.start, token.start + 1, "")
