"""Bound parameters put into SQL text as literals, token by token, so that a value can never become SQL."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import pyarrow as pa

from flightllm.errors import LimitExceededError, SqlError
from flightllm.sql.literals import count_items, literal, no_literal
from flightllm.sql.tokens import Kind, Token, tokenize

_T = TypeVar("_T")
_MOST = 65_535
"""Parameters of one statement. `$n` stands for n of them, so that a short text could ask for any number."""
_MOST_ITEMS, _MOST_TEXT = 10_000, 16 << 20
"""What one row of parameters may come to in the text: values of lists, structs and maps, and characters.

The text is read as often as any other, and the values of a list are planned one by one: 100,000 took 20 s.
"""


def count_parameters(sql: str) -> int:
    """Return how many values `sql` takes: the number of `?`, or the highest n of `$n`.

    Raises:
        SqlError: `?` and `$n` are mixed, a placeholder is neither, or there are too many.
    """
    return _count([token for token in tokenize(sql) if token.kind is Kind.PLACEHOLDER])


def numbered(sql: str, intervals: Collection[int] = ()) -> str:
    """Return `sql` with `$1`, `$2`, … for its `?`; those that are intervals, by index from 0, with a cast."""
    parts, end = [], 0
    for index, token in enumerate(token for token in tokenize(sql) if token.kind is Kind.PLACEHOLDER):
        number = index + 1 if token.text == "?" else int(token.text[1:])
        parts += [sql[end : token.start], f"CAST(${number} AS INTERVAL)" if number - 1 in intervals else f"${number}"]
        end = token.end
    return "".join([*parts, sql[end:]])


def each_row(parameters: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parameters one by one, each when its turn comes: there may be millions."""
    for batch in parameters.to_batches() if parameters is not None else []:
        yield from (batch.slice(i, 1) for i in range(batch.num_rows))


def bind(sql: str, parameters: pa.RecordBatch | None) -> str:
    """Return `sql` with every placeholder replaced by the literal of its value; `parameters` has one row.

    `?` take the columns from left to right, `$n` the n-th column.

    Raises:
        SqlError: the number of values or rows does not fit, or a value's type has no literal; names the column.
        LimitExceededError: the values are too many or too large to stand in a statement's text.
    """
    placeholders = [token for token in tokenize(sql) if token.kind is Kind.PLACEHOLDER]
    wanted = _count(placeholders)
    given = parameters.num_columns if parameters is not None else 0
    if wanted != given:
        raise SqlError(f"the statement takes {wanted} parameters, but {given} are bound")
    if parameters is None or not placeholders:
        return sql
    if parameters.num_rows != 1:
        raise SqlError(f"one row of parameters was expected, not {parameters.num_rows}")
    columns = [index if token.text == "?" else int(token.text[1:]) - 1 for index, token in enumerate(placeholders)]
    items = [_read(parameters, column, count_items) for column in range(given)]
    if (found := sum(items[column] for column in columns if items[column] > 1)) > _MOST_ITEMS:
        raise _too_much(f"hold {found:,} values in lists, structs and maps", f"{_MOST_ITEMS:,}")
    literals = [_read(parameters, column, literal) for column in range(given)]
    if (found := sum(len(literals[column]) for column in columns)) > _MOST_TEXT:
        raise _too_much(f"are {found:,} characters of SQL text", f"{_MOST_TEXT:,}")
    parts, end = [], 0
    for token, column in zip(placeholders, columns, strict=True):
        parts += [sql[end : token.start], literals[column]]
        end = token.end
    return "".join([*parts, sql[end:]])


def _too_much(found: str, most: str) -> LimitExceededError:
    return LimitExceededError(
        f"the parameters of one row {found}, at most {most} may be: upload them as a table, and join it"
    )


def _count(placeholders: list[Token]) -> int:
    marks = {token.text == "?" for token in placeholders}
    if len(marks) > 1:
        raise SqlError("write either ? or $1, $2, … for parameters, not both")
    if marks <= {True}:
        count = len(placeholders)
    else:
        for token in placeholders:
            if not token.text[1:].isdecimal() or not token.text[1:].strip("0"):
                raise SqlError(f"parameter {token.text[:80]!r} is unknown: write ?, or $1, $2, …")
        digits = max((token.text[1:].lstrip("0") for token in placeholders), key=lambda text: (len(text), text))
        count = int(digits) if len(digits) <= len(str(_MOST)) else _MOST + 1
    if count > _MOST:
        raise SqlError(f"a statement takes up to {_MOST:,} parameters: upload the values to a table instead")
    return count


def _read(parameters: pa.RecordBatch, column: int, read: Callable[[pa.Scalar], _T]) -> _T:
    """Read a value; where that fails, say which. Arrow has values that neither SQL nor Python can hold."""
    value = parameters.column(column)[0]
    try:
        return read(value)
    except Exception as error:
        said = error if isinstance(error, SqlError) else no_literal(value.type)
        raise SqlError(f"parameter {column + 1} ({parameters.schema.names[column]!r}): {said}") from error
