"""Reader of `ai_next_labels('filter', 'SELECT t FROM messages', 20)` in FROM.

The rows can be SQL or a text with SQL. `plain_rows` writes them as SQL, so that later steps find the names of tables in
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flightllm.errors import AICallError
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.calls_in_from import rows_as_sql, with_queries
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import position

NAME: Final = "ai_next_labels"
_USAGE: Final = f"write {NAME}('filter', 'SELECT t FROM messages', 20)"
_PARTS: Final = ("filter", "rows", "count")
_USUAL: Final = 20
_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class NextLabels:
    """One call: the name of a filter, a query of rows without labels, and the number of rows to label next."""

    filter: str
    rows: str
    """A query in parentheses."""
    count: int


def names_next_labels(text: ParsedText) -> bool:
    """Return whether a text calls `ai_next_labels`.

    Raises:
        AICallError: a call is outside of FROM.
    """
    found = False
    for index in _calls(text):
        if not text.scopes.names_table[index]:
            raise AICallError(f"{_where(text, index)} returns rows: write SELECT … FROM {NAME}(…)")
        found = True
    return found


def plain_rows(text: ParsedText) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the SQL of each query of rows that is a text or a table."""
    for index in _calls(text):
        for part, first, last in _arguments(text, index):
            tokens = text.tokens[first:last]
            sql = rows_as_sql(tokens) if part == "rows" and tokens else None
            if sql is not None:
                yield tokens[0].start, tokens[-1].end, sql


def next_labels_at(text: ParsedText, index: int) -> NextLabels | None:
    """Return the call that begins at a token in FROM, or None.

    Raises:
        AICallError: an argument is missing, unknown or no constant of its type.
    """
    if not text.is_word(index, NAME):
        return None
    where = _where(text, index)
    given = dict[str, object](count=_USUAL)
    seen = set[str]()
    for name, first, last in _arguments(text, index):
        tokens = text.tokens[first:last]
        if name not in _PARTS or name in seen or not tokens:
            fault = (
                f"the argument {name} is given twice"
                if name in seen
                else f"the argument {name} has no value"
                if name in _PARTS
                else f"there is no argument {name}"
                if name
                else f"there are more than {len(_PARTS)} arguments"
            )
            raise AICallError(f"{where}: {fault}: {_USAGE}")
        seen.add(name)
        if name == "rows":
            given[name] = rows_as_sql(tokens) or text.sql[tokens[0].start : tokens[-1].end]
        else:
            constant = read_constant(tokens)
            given[name] = None if constant is None else constant.value
    if absent := [name for name in _PARTS if name not in given]:
        raise AICallError(f"{where}: the argument {absent[0]} is missing: {_USAGE}")
    filter_, rows, count = (given[name] for name in _PARTS)
    if not isinstance(filter_, str):
        raise AICallError(f"{where}: the argument filter is not the name of a filter in quotes: {_USAGE}")
    if not isinstance(rows, str) or rows[:1] != "(":
        raise AICallError(f"{where}: the argument rows is not a query or a table: {_USAGE}")
    if not isinstance(count, int) or isinstance(count, bool):
        raise AICallError(f"{where}: the argument count is not a whole number: {_USAGE}")
    if not 1 <= count <= _MOST:
        raise AICallError(f"{where}: the argument count is from 1 to {_MOST:,}, not {count}")
    return NextLabels(filter_.lower(), with_queries(text, index, rows), count)


def _calls(text: ParsedText) -> Iterator[int]:
    """Yield the tokens of the function's name in calls."""
    return (index for index in range(len(text.tokens)) if text.is_word(index, NAME) and (index + 1) in text.closing)


def _arguments(text: ParsedText, index: int) -> Iterator[tuple[str, int, int]]:
    """Yield the name and the token range of each argument; the name is empty where there are too many."""
    closing = text.closing[index + 1]
    for place, (first, last) in enumerate(split_arguments(text.tokens, index + 2, closing, text.closing)):
        if last - first > 2 and text.tokens[first + 1].is_symbol("=>"):
            yield (identifier(text.tokens[first]) or "").lower(), first + 2, last
        else:
            yield _PARTS[place] if place < len(_PARTS) else "", first, last


def _where(text: ParsedText, index: int) -> str:
    return f"{NAME} at {position(text.sql, text.tokens[index].start)}"
