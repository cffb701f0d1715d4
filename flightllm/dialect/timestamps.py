"""Rewrite timestamps in years that nanoseconds cannot represent."""

import re
from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.tokens import TokenKind

_YEAR = re.compile(r"\s*([+-]?\d{1,5})-")
_FIRST, _LAST = 1678, 2261
"""The first and last full year that 64 bits of nanoseconds represent."""


def timestamps(source: Source) -> Iterator[Edit]:
    """Rewrite `TIMESTAMP '0001-01-01 00:00:00'` as `CAST('0001-01-01 00:00:00' AS TIMESTAMP(6))`."""
    for index, token in enumerate(source.tokens):
        if token.kind is not TokenKind.STRING or not source.is_word(index - 1, "timestamp"):
            continue
        year = _YEAR.match(token.text)
        if year is not None and not _FIRST <= int(year[1]) <= _LAST:
            text = source.text(index, index + 1)
            yield Edit(source.tokens[index - 1].start, token.end, f"CAST({text} AS TIMESTAMP(6))")
