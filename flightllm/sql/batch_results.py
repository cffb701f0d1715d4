"""The call `batch_result('id')` in FROM: the rows of a deferred query."""

from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind, position

RESULT: Final = "batch_result"


def result_at(text: ParsedText, index: int) -> str | None:
    """Return the id in a call that begins at a token; None if another call does.

    Raises:
        SqlError: the call does not have one text as its argument.
    """
    tokens = text.tokens
    if not text.is_word(index, RESULT):
        return None
    closing = text.closing.get(index + 1)
    if closing != index + 3 or tokens[index + 2].kind is not TokenKind.STRING:
        where = position(text.sql, tokens[index].start)
        raise SqlError(f"{RESULT} at {where}: write the id of a statement as a text, as in {RESULT}('1f2e3d4c5b6a')")
    return tokens[index + 2].text.strip()


def has_late_id(text: ParsedText) -> bool:
    """Return whether the id of a call is a parameter: the columns are then known with its value."""
    tokens = text.tokens
    if RESULT not in text.sql.lower():
        return False
    calls = (index for index in range(len(tokens) - 2) if text.is_word(index, RESULT) and index + 1 in text.closing)
    return any(tokens[index + 2].kind is TokenKind.PLACEHOLDER for index in calls)
