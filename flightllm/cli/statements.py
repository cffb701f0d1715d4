"""Several statements in one text, from a file or pasted."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from flightllm.common.command_line import CommandError
from flightllm.errors import FlightLLMError, SqlError

_SIGNS = (";", "\\", "--", "/*", "#")
"""The signs that can end a statement, or begin a command or a comment."""
_COMMANDS = ("\\", ".")
"""The first letters of the shell's commands, as in psql and in duckdb; no statement begins with them."""


class Statement(NamedTuple):
    """A statement or a shell command, and the line of the text in which it begins, from 1 on."""

    text: str
    line: int = 1


def split_statements(text: str) -> Iterator[str]:
    """Yield the statements between semicolons, without the semicolons. A malformed statement extends to the text's end.

    A line between statements that begins with a backslash or a dot is a shell command, as in psql and duckdb.
    """
    alone = text.strip().removesuffix(";").rstrip()
    if any(sign in alone for sign in _SIGNS) or alone.startswith("."):
        yield from (one.text for one in located_statements(text))
    elif alone:
        yield alone


def located_statements(text: str) -> Iterator[Statement]:
    """Yield statements as `split_statements` does, each with its line."""
    ends = [place for place, letter in enumerate(text) if letter == "\n"]
    for begin, end, first in _pieces(text):
        yield Statement(text[begin:end].strip(), bisect_left(ends, first) + 1)


def is_command(text: str) -> bool:
    """Return whether a text is a command of the shell, or looks like one."""
    return text.startswith(_COMMANDS) or text.rstrip("; ").lower() in {"help", "exit", "quit"}


@contextmanager
def errors_at(line: int) -> Iterator[None]:
    """Add the line of the statement to an error that it raises.

    Raises:
        CommandError: in place of our errors.
    """
    try:
        yield
    except FlightLLMError as error:
        raise CommandError(f"in the statement at line {line}: {error}") from error


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each statement begins and ends, and where its first token is: comments can come before."""
    from flightllm.sql.tokens import tokenize  # slow to import

    base = 0
    while (rest := text[base:].lstrip()).startswith(_COMMANDS):
        begin = len(text) - len(rest)
        base = _line_end(text, begin)
        yield begin, base, begin
    try:
        tokens = tokenize(text[base:])
    except SqlError:  # an open quote, whose position the server reports
        yield base, len(text), len(text) - len(rest)
        return
    start, first = base, None
    for token in tokens:
        begin, end = token.start + base, token.end + base
        if begin < start:  # the token is part of a shell command
            continue
        if first is None and any(map(token.is_symbol, _COMMANDS)):
            start = _line_end(text, begin)
            yield begin, start, begin
        elif not token.is_symbol(";"):
            first = begin if first is None else first
        else:
            if first is not None:
                yield start, begin, first
            start, first = end, None
    if first is not None:
        yield start, len(text), first


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found
