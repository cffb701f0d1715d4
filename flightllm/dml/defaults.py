"""The DEFAULT of each column, as written in CREATE TABLE, and the VALUES of an INSERT that leave values to it."""

from collections.abc import Sequence
from dataclasses import replace

from flightllm.catalog.column_defaults import defaults_of
from flightllm.catalog.entries import Entry
from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.sql.row_changes import split_list
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis, tokenize

DEFAULT_VALUES = "DEFAULT VALUES"
"""The query of an INSERT of one row of defaults."""
_CHECKED_CHARACTERS, _COUNTED_CHARACTERS = 4_000, 100_000
"""How long VALUES can be to be read again: for clear errors, and if rows can be short. Longer ones take too long."""


def leaves_values(statement: Statement) -> bool:
    """Return whether `whole_values` can change a statement or find an error in it."""
    query = (statement.query or "").lower()
    if statement.kind != "insert" or not query.startswith(("values", "default")):
        return False
    most = _CHECKED_CHARACTERS if statement.columns else _COUNTED_CHARACTERS
    return len(query) <= most or "default" in query


def whole_values(statement: Statement, entry: Entry) -> Statement:
    """Return an INSERT with an expression for each DEFAULT, and with the columns of rows that are too short.

    The columns of `t` are k, i and v, and `i` has DEFAULT 7:

    | INSERT | returned |
    |---|---|
    | `INSERT INTO t VALUES (1, DEFAULT)` | `INSERT INTO t (k, i) VALUES (1, 7)` |
    | `INSERT INTO t DEFAULT VALUES` | `INSERT INTO t (k, i, v) VALUES (NULL, 7, NULL)` |

    Raises:
        SqlError: the rows do not have a value for each column, or the statement names a column twice.
    """
    columns = list(statement.columns or entry.schema.names)
    again = next((name for index, name in enumerate(columns) if name in columns[:index]), None)
    if again is not None:
        raise SqlError(f"INSERT names the column {again!r} twice")
    query = statement.query or ""
    if query == DEFAULT_VALUES:
        query = f"VALUES ({', '.join(['DEFAULT'] * len(columns))})"
    tokens = tokenize(query)
    rows = _rows(tokens)
    if not rows or any(_is_no_expression(value) for row in rows for value in row):
        return statement  # DataFusion reports the place of this value
    counts = [len(row) for row in rows]
    if not statement.columns and max(counts) < len(columns):
        columns = columns[: max(counts)]
    wrong = next((number for number, count in enumerate(counts) if count != len(columns)), None)
    if wrong is not None:
        raise SqlError(
            f"INSERT is into {len(columns)} columns, but row {wrong + 1} of VALUES has {counts[wrong]} values"
        )
    defaults = defaults_of(entry)
    parts, end = list[str](), 0
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            if len(value) == 1 and value[0].is_word("default"):
                parts += (query[end : value[0].start], f"({defaults.get(column, 'NULL')})")
                end = value[0].end
    query = "".join([*parts, query[end:]])
    if not parts and len(columns) == len(statement.columns or entry.schema.names):
        return statement
    named = ", ".join(map(quoted, columns))
    text = f"INSERT INTO {statement.target.sql if statement.target else ''} ({named}) {query}"
    return replace(statement, text=text, query=query, columns=tuple(columns))


def _is_no_expression(value: Sequence[Token]) -> bool:
    return not value or (len(value) == 1 and value[0].kind is TokenKind.SYMBOL)


def _rows(tokens: Sequence[Token]) -> list[list[Sequence[Token]]]:
    """Return the values of each row of VALUES; an empty list if the text is not only VALUES."""
    rows, at = list[list[Sequence[Token]]](), 1
    while at < len(tokens) and tokens[at].is_symbol("("):
        end = closing_parenthesis(tokens, at)
        rows.append(list(split_list(tokens[at + 1 : end])))
        at = end + 1
        if at == len(tokens):
            return rows
        at += 1
    return []
