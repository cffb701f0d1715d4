"""Rewrite timestamps without seconds, and those in years that nanoseconds cannot represent."""

import re
from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind

_TEXT = re.compile(r"\s*([+-]?\d{1,5})-(\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?(?:Z|\+00(?::?00)?)?\s*")
_NO_SECONDS = re.compile(r"(\s*[+-]?\d{1,5}-\d\d-\d\d[ T]\d\d:\d\d)(\s*(?:Z|[+-]\d\d(?::?\d\d)?)?\s*)", re.IGNORECASE)
_YEAR = re.compile(r"\s*([+-]?\d{1,5})-")
_TYPES = ("timestamp", "timestamptz")
_FIRST, _LAST = 1678, 2261
"""The first and last full year that 64 bits of nanoseconds represent."""
_RANGE = ("1677-09-21 00:12:43.145224192", "2262-04-11 23:47:16.854775807")
"""The first and last time that they represent, in UTC."""


def timestamps(source: Source) -> Iterator[Edit]:
    """Rewrite `TIMESTAMP '0001-01-01 10:00'` as `CAST('0001-01-01 10:00:00' AS TIMESTAMP(6))`."""
    for index, token in enumerate(source.tokens):
        if token.kind is not TokenKind.STRING:
            continue
        short = _NO_SECONDS.fullmatch(token.text)
        whole = f"{short[1]}:00{short[2]}" if short else token.text
        far = _is_far(whole)
        if not (short or far):
            continue
        text = text_literal(whole) if short else source.text(index, index + 1)
        zoned = all(source.is_word(index - 3 + i, word) for i, word in enumerate(("with", "time", "zone")))
        first = index - 4 if zoned else index - 1
        typed = source.is_word(first, *_TYPES)
        if typed and far:
            kind = "TIMESTAMPTZ(6)" if zoned or source.is_word(first, "timestamptz") else "TIMESTAMP(6)"
            yield Edit(source.tokens[first].start, token.end, f"CAST({text} AS {kind})")
        elif short and (typed or _is_cast(source, index)):
            yield Edit(token.start, token.end, text)


def _is_cast(source: Source, index: int) -> bool:
    """Return whether a literal becomes a timestamp by a cast or an escape: `'…'::timestamp`, `{ts '…'}`."""
    cast = source.is_word(index + 1, "as") and source.is_word(index - 2, "cast", "try_cast", "safe_cast")
    escape = source.is_word(index - 1, "ts") and source.is_symbol(index - 2, "{")
    return escape or ((cast or source.is_symbol(index + 1, "::")) and source.is_word(index + 2, *_TYPES))


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
