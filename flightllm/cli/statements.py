"""Several statements in one text, from a file or pasted."""

from collections.abc import Iterator

from flightllm.errors import SqlError

_SIGNS = (";", "\\", "--", "/*", "#")
"""The signs that can end a statement, or begin a command or a comment."""


def split_statements(text: str) -> Iterator[str]:
    """Yield the statements between semicolons, without the semicolons. A malformed statement extends to the text's end.

    A line between statements that begins with a backslash is a shell command, as in psql.
    """
    alone = text.strip().removesuffix(";").rstrip()
    if any(sign in alone for sign in _SIGNS):
        yield from _split(text)
    elif alone:
        yield alone


def _split(text: str) -> Iterator[str]:
    from flightllm.sql.tokens import tokenize  # slow to import

    while (rest := text.lstrip()).startswith("\\"):
        command, _, text = rest.partition("\n")
        yield command.strip()
    start, comments_alone = 0, True
    try:
        tokens = tokenize(text)
    except SqlError:  # an open quote, whose position the server reports
        yield text.strip()
        return
    for token in tokens:
        if token.start < start:  # the token is part of a shell command
            continue
        if comments_alone and token.is_symbol("\\"):
            command = text[token.start :].partition("\n")[0]
            yield command.strip()
            start = token.start + len(command)
            continue
        if not token.is_symbol(";"):
            comments_alone = False
            continue
        if not comments_alone:
            yield text[start : token.start].strip()
        start, comments_alone = token.end, True
    if not comments_alone:
        yield text[start:].strip()
