"""Parser for CREATE, ALTER, DROP and SHOW of filters that are learned from people's labels."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from flightllm.common.names import TableName
from flightllm.errors import SqlError
from flightllm.sql.cursor import Cursor
from flightllm.sql.function_statements import function_name, read_expression, read_figures
from flightllm.sql.names import PEOPLES_LABELS
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, closing_parenthesis

FILTERS: Final = TableName("system", "filters")
_FILTER: Final = (
    "write CREATE [OR REPLACE] FILTER name AS ai_filter('Is {t} spam?', {t}) FIT ON (SELECT t, label FROM labelled)"
    " [WITH (precision = 0.9, recall = 0.9, confidence = 0.95)]"
)
_DROP: Final = "write DROP FILTER [IF EXISTS] name"
_ALTER: Final = "write ALTER FILTER name REFIT"
_SHOW: Final = "write SHOW FILTERS, or SELECT … FROM system.filters"


def read_filter_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it creates, fits again, drops or shows learned filters, else None.

    Raises:
        SqlError: a part is missing, or unexpected text follows the statement.
    """
    cursor = Cursor(tokens, 0)
    if cursor.take("show", "filters"):
        cursor.end(_SHOW)
        return Statement("query", text, query=f"SELECT * FROM {FILTERS.sql}")
    if cursor.take("drop", "filter"):
        exists_ok = cursor.take("if", "exists")
        name = function_name(cursor, _DROP)
        cursor.end(_DROP)
        return Statement("drop_filter", text, key=name, exists_ok=exists_ok)
    if cursor.take("alter", "filter"):
        name = function_name(cursor, _ALTER)
        cursor.need(_ALTER, "refit")
        cursor.end(_ALTER)
        return Statement("refit_filter", text, key=name)
    if not cursor.take("create"):
        return None
    replaces = cursor.take("or", "replace")
    return _created(cursor, text, replaces=replaces) if cursor.take("filter") else None


def _created(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    name = function_name(cursor, _FILTER)
    cursor.need(_FILTER, "as")
    tokens, start = cursor.tokens, cursor.tokens[0].start
    end = next((at for at in range(cursor.at, len(tokens)) if _begins_fit(tokens, at)), len(tokens))
    body, names = read_expression(tokens[cursor.at : end], text, start, _FILTER)
    cursor.at = end
    cursor.need(_FILTER, "fit", "on")
    query = _labelled(cursor, text, start)
    options = read_figures(cursor, _FILTER) if cursor.take("with") else {}
    cursor.end(_FILTER)
    return Statement(
        "create_filter",
        text,
        key=name,
        value=body,
        columns=names,
        labelled=query,
        or_replace=replaces,
        exists_ok=exists_ok,
        model_options=MappingProxyType(options),
    )


def _labelled(cursor: Cursor, text: str, start: int) -> str:
    """Read a query in parentheses, or the name of a table; `start` is the place of the first token in the text."""
    if not cursor.symbol("("):
        table = cursor.table()
        return PEOPLES_LABELS if table.display == PEOPLES_LABELS else f"SELECT * FROM {table.sql}"
    tokens, closing = cursor.tokens, closing_parenthesis(cursor.tokens, cursor.at - 1)
    if closing == cursor.at:
        raise SqlError(f"a query was expected after FIT ON: {_FILTER}")
    query = text[tokens[cursor.at].start - start : tokens[closing - 1].end - start]
    cursor.at = closing + 1
    return query


def _begins_fit(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].is_word("fit") and at + 1 < len(tokens) and tokens[at + 1].is_word("on")
