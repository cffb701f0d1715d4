"""The statements of a text that has several."""

from collections.abc import Iterator
from typing import NamedTuple

from flightllm.errors import SqlError
from flightllm.sql.tokens import tokenize


class Piece(NamedTuple):
    """Where a statement begins and ends in a text, and where its first token is: comments can come before it."""

    begin: int
    end: int
    first: int


def pieces(text: str, commands: tuple[str, ...] = ()) -> Iterator[Piece]:
    """Yield the statements between semicolons, without the semicolons. A malformed statement extends to the text's end.

    A line between statements that begins with one of `commands` is a piece of its own.
    """
    base = 0
    while commands and (rest := text[base:].lstrip()).startswith(commands):
        begin = len(text) - len(rest)
        base = _line_end(text, begin)
        yield Piece(begin, base, begin)
    try:
        tokens = tokenize(text[base:])
    except SqlError:  # an open quote, whose position the server reports
        yield Piece(base, len(text), len(text) - len(text[base:].lstrip()))
        return
    start, first = base, None
    for token in tokens:
        begin, end = token.start + base, token.end + base
        if begin < start:  # the token is part of a command
            continue
        if first is None and any(map(token.is_symbol, commands)):
            start = _line_end(text, begin)
            yield Piece(begin, start, begin)
        elif not token.is_symbol(";"):
            first = begin if first is None else first
        else:
            if first is not None:
                yield Piece(start, begin, first)
            start, first = end, None
    if first is not None:
        yield Piece(start, len(text), first)


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found
