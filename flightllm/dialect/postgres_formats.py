"""Rewrite `to_char` with formats of PostgreSQL that chrono lacks: those of numbers, and `Day`, `FMDD` or `th`."""

import re
from collections.abc import Iterator
from typing import Final

from flightllm.dialect.formats import from_letters
from flightllm.dialect.functions import DialectCall, read_call
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.functions.postgres_formats import NUMBER_BY_FORMAT, TIME_BY_FORMAT
from flightllm.sql.tokens import TokenKind

WORD: Final = "to_char"
_NUMBER: Final = re.compile(r'(?:FM|MI|PR|[SDG90.,\s$%+-]|"[^"]*")+')
_QUOTED: Final = re.compile(r'"[^"]*"')
_SMALL: Final = re.compile(r"Month|Mon|Day|Dy|month|mon|day|dy|[ap]\.?m\.?|th")
"""Letters of PostgreSQL that other servers do not read in another way, as they read `mm` and `ss`."""


def postgres_formats(source: Source) -> Iterator[Edit]:
    """Rewrite `to_char(n, 'FM990.0')` as `__number_by_format(CAST(n AS VARCHAR), 'FM990.0')`."""
    for index, token in enumerate(source.tokens):
        if token.kind is TokenKind.WORD and token.text.lower() == WORD and source.called(index) is not None:
            call = read_call(source, index)
            if call is not None and len(call.ranges) == 2:
                yield from _written(call)


def _written(call: DialectCall) -> Iterator[Edit]:
    written = call.literal(1)
    if written is None or "%" in written.replace("%%", "").rstrip("%"):
        return
    letters = _QUOTED.sub("", written)
    digits = _NUMBER.fullmatch(written) and ("9" in letters or "0" in letters)
    if digits or ("9" in letters and not _is_read(written)):
        name, kind = NUMBER_BY_FORMAT, "VARCHAR"
    elif _is_read(written) or _SMALL.sub("", letters) != _SMALL.sub("", letters).upper():
        return
    else:
        name, kind = TIME_BY_FORMAT, "TIMESTAMP(6)"
    yield call.opened(f"{name}(CAST(")
    last = call.source.tokens[call.ranges[0][1] - 1].end
    yield Edit(last, last, f" AS {kind})")


def _is_read(written: str) -> bool:
    try:
        from_letters(written)
    except ValueError:
        return False
    return True
