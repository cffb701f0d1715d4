"""Rewriting of `ai_next_labels('filter', 'SELECT t FROM messages', 20)` in FROM, which becomes a table of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flightllm.errors import AICallError
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.table_functions import has_alias
from flightllm.sql.tokens import TokenKind, position

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
    count: int


def replace_next_labels(text: ParsedText, table: Callable[[NextLabels], str]) -> ParsedText:
    """Return SQL with each call in FROM replaced by the text that `table` returns; other text stays as it is.

    Raises:
        AICallError: an argument is missing, unknown or no constant of its type.
    """
    sql, tokens, scopes = text.sql, text.tokens, text.scopes
    parts, start = list[str](), 0
    for index, token in enumerate(tokens):
        closing = scopes.closing.get(index + 1)
        if token.kind is not TokenKind.WORD or token.text.lower() != NAME or closing is None:
            continue
        where = f"{NAME} at {position(sql, token.start)}"
        if not scopes.names_table[index]:
            raise AICallError(f"{where} returns rows: write SELECT … FROM {NAME}(…)")
        given = dict[str, object]()
        for place, (first, last) in enumerate(split_arguments(tokens, index + 2, closing, scopes.closing)):
            named = last - first > 2 and tokens[first + 1].is_symbol("=>")
            name = identifier(tokens[first]) if named else next(iter(_PARTS[place : place + 1]), None)
            constant = read_constant(tokens[first + 2 if named else first : last])
            if name not in _PARTS or name in given or constant is None:
                raise AICallError(f"{where}: {_USAGE}")
            given[name] = constant.value
        parts += [sql[start : token.start], table(_read(given, where))]
        parts.append("" if has_alias(tokens, closing + 1) else f" AS {NAME}")
        start = tokens[closing].end
    return text.replaced("".join([*parts, sql[start:]]))


def _read(given: dict[str, object], where: str) -> NextLabels:
    filter_, rows, count = given.get("filter"), given.get("rows"), given.get("count", _USUAL)
    if not isinstance(filter_, str) or not isinstance(rows, str) or not isinstance(count, int):
        raise AICallError(f"{where}: {_USAGE}")
    if not 1 <= count <= _MOST:
        raise AICallError(f"{where}: the number of rows is from 1 to {_MOST:,}, not {count}")
    return NextLabels(filter_.lower(), rows, count)
