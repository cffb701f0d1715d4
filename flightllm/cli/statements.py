"""Several statements in one text, from a file or pasted."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flightllm.common.command_line import CommandError
from flightllm.errors import FlightLLMError

_SIGNS = (";", "\\", "--", "/*", "#")
"""The signs that can end a statement, or begin a command or a comment."""
_COMMANDS = ("\\", ".")
"""The first letters of the shell's commands, as in psql and in duckdb; no statement begins with them."""


_READERS = ("\\i", ".read", "\\e", ".edit")
"""The commands that run the statements of a file or of an editor."""
_STATEMENT = re.compile(
    r"[\s(]*(?:--[^\n]*\n\s*)*(?:select|from|with|values|insert|update|delete|merge|create|drop|alter|copy|explain|"
    r"describe|desc|summarize|show|set|reset|truncate|refresh|comment|pivot|unpivot|table)\s*[\s(*'\"\[]",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """A statement or a shell command, and the line of the text in which it begins, from 1 on."""

    text: str
    line: int = 1


def split_statements(text: str) -> Iterator[str]:
    """Yield the statements between semicolons, without the semicolons. A malformed statement extends to the text's end.

    A line between statements that begins with a backslash or a dot is a shell command, as in psql and duckdb.
    """
    yield from (one.text for one in located_statements(text))


def located_statements(text: str) -> Iterator[Statement]:
    """Yield statements as `split_statements` does, each with its line."""
    alone = text.strip().removesuffix(";").rstrip()
    if not any(sign in alone for sign in _SIGNS) and not alone.startswith("."):
        if alone:
            yield Statement(alone, text[: text.index(alone)].count("\n") + 1)
        return
    from flightllm.sql.splitting import pieces  # slow to import

    ends = [place for place, letter in enumerate(text) if letter == "\n"]
    for begin, end, first in pieces(text, _COMMANDS):
        yield Statement(text[begin:end].strip(), bisect_left(ends, first) + 1)


def is_statement(text: str) -> bool:
    """Return whether an argument of a command begins as SQL does, and has several words."""
    return _STATEMENT.match(text) is not None


def names_file(text: str) -> bool:
    """Return whether an argument is the path of a file or folder that exists."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # it is too long for a name, or has a zero byte
        return False


def reads_scripts(text: str) -> bool:
    """Return whether a command in a script can run statements that are not in the script."""
    return any(one.text.lower().startswith(_READERS) for one in located_statements(text))


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
