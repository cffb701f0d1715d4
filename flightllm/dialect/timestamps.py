"""Rewrite timestamps in years that nanoseconds cannot represent."""

import re
from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.tokens import TokenKind

_TEXT = re.compile(r"\s*([+-]?\d{1,5})-(\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?(?:Z|\+00(?::?00)?)?\s*")
_YEAR = re.compile(r"\s*([+-]?\d{1,5})-")
_FIRST, _LAST = 1678, 2261
"""The first and last full year that 64 bits of nanoseconds represent."""
_RANGE = ("1677-09-21 00:12:43.145224192", "2262-04-11 23:47:16.854775807")
"""The first and last time that they represent, in UTC."""


def timestamps(source: Source) -> Iterator[Edit]:
    """Rewrite `TIMESTAMP '0001-01-01 00:00:00'` as `CAST('0001-01-01 00:00:00' AS TIMESTAMP(6))`."""
    for index, token in enumerate(source.tokens):
        if token.kind is not TokenKind.STRING or not _is_far(token.text):
            continue
        zoned = all(source.is_word(index - 3 + i, word) for i, word in enumerate(("with", "time", "zone")))
        first = index - 4 if zoned else index - 1
        if source.is_word(first, "timestamp") or source.is_word(first, "timestamptz"):
            kind = "TIMESTAMPTZ(6)" if zoned or source.is_word(first, "timestamptz") else "TIMESTAMP(6)"
            text = source.text(index, index + 1)
            yield Edit(source.tokens[first].start, token.end, f"CAST({text} AS {kind})")


def _is_far(text: str) -> bool:
    """Return whether nanoseconds cannot represent a time; in the years 1677 and 2262 its whole text decides."""
    year = _YEAR.match(text)
    if year is None or _FIRST <= int(year[1]) <= _LAST:
        return False
    found = _TEXT.fullmatch(text)
    if found is None or int(year[1]) not in {_FIRST - 1, _LAST + 1}:
        return True
    _, day, time, fraction = found.groups()
    return not _RANGE[0] <= f"{int(year[1])}-{day} {time or '00:00:00'}.{fraction or '':0<9}" <= _RANGE[1]
