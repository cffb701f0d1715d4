"""The DEFAULT of each column of a stored table, as written in CREATE TABLE."""

from collections.abc import Mapping, Sequence

from flightllm.catalog.entries import Entry
from flightllm.sql.column_lists import column_ranges, enclosed
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Token, tokenize

_AFTER = ("not", "null", "primary", "unique", "check", "references", "constraint", "generated", "comment")


def defaults_of(entry: Entry) -> Mapping[str, str]:
    """Return the SQL text of each column's DEFAULT, by column name. Columns without a DEFAULT are absent."""
    return {} if entry.rows is None or not entry.rows.definition else defaults_in(entry.rows.definition)


def defaults_in(definition: str) -> Mapping[str, str]:
    """Return the SQL text of each DEFAULT in the column list of CREATE TABLE, by column name."""
    found, tokens = {}, tokenize(definition)
    for first, last in column_ranges(tokens):
        column = tokens[first:last]
        name = identifier(column[0]) if column else None
        start = _outside(column, 2, ("default",)) + 1  # after the name and the first word of the type
        if name is not None and start < len(column):
            end = _outside(column, start + 1, _AFTER)
            found[name] = definition[column[start].start : column[end - 1].end]
    return found


def _outside(tokens: Sequence[Token], start: int, words: Sequence[str]) -> int:
    """Return the index of the first of some words from `start` on that is in no brackets, or the number of tokens."""
    return next(
        (
            index
            for index, inside in enclosed(tokens)
            if index >= start and not inside and tokens[index].is_word(*words)
        ),
        len(tokens),
    )
