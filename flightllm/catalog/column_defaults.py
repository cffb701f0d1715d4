"""The DEFAULT of each column of a stored table, as written in CREATE TABLE."""

from collections.abc import Mapping, Sequence

from flightllm.catalog.entries import Entry
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Token, tokenize

_AFTER = ("not", "null", "primary", "unique", "check", "references", "constraint", "generated", "comment")


def defaults_of(entry: Entry) -> Mapping[str, str]:
    """Return the SQL text of each column's DEFAULT, by column name. Columns without a DEFAULT are absent."""
    if entry.rows is None or not entry.rows.definition:
        return {}
    definition = entry.rows.definition
    found = {}
    for column in _columns(tokenize(definition)):
        name = identifier(column[0])
        at = next((i for i, token in enumerate(column) if i > 1 and token.is_word("default")), 0)
        if name is not None and at and at + 1 < len(column):
            end = _end(column, at + 1)
            found[name] = definition[column[at + 1].start : column[end - 1].end]
    return found


def _columns(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split `(a INT, b DECIMAL(3, 1) DEFAULT 2)` into its columns."""
    columns, depth, first = [], 0, 1
    for index, token in enumerate(tokens):
        depth += sum(map(token.is_symbol, "([{")) - sum(map(token.is_symbol, ")]}"))
        if (depth == 1 and token.is_symbol(",")) or (depth == 0 and index):
            columns.append(tokens[first:index])
            first = index + 1
    return [column for column in columns if column]


def _end(tokens: Sequence[Token], start: int) -> int:
    """Return the index where a DEFAULT expression ends: the next constraint of the column, or the end of the tokens."""
    depth = 0
    for index in range(start, len(tokens)):
        if index > start and depth == 0 and tokens[index].is_word(*_AFTER):
            return index
        depth += sum(map(tokens[index].is_symbol, "([{")) - sum(map(tokens[index].is_symbol, ")]}"))
    return len(tokens)
