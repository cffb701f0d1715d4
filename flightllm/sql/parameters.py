"""Binding of parameters into SQL text as literals, token by token, so that a value can never become SQL."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from flightllm.errors import LimitExceededError, SqlError
from flightllm.sql.literals import count_items, literal, no_literal
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

_T = TypeVar("_T")
_MOST = 65_535
"""The most parameters of one statement. Without this limit, the short text `$999999999` would ask for 999,999,999."""
_MOST_ITEMS, _MOST_TEXT = 10_000, 16 << 20
"""For one row of parameters: the most values in lists, structs and maps, and the most characters of SQL text.

The server parses the bound text again, and DataFusion plans the values of a list one by one: 100,000 values took 20 s.
"""


def parameter_names(text: ParsedText) -> tuple[str, ...]:
    """Return the names of the parameters that `text` takes: those of `:name` and `$name`, else `0`, `1`, ….

    | placeholders     | names        |
    |------------------|--------------|
    | `?`, `?`         | `0`, `1`     |
    | `$3`             | `0`, `1`, `2`|
    | `:b`, `:a`, `:b` | `b`, `a`     |

    Raises:
        SqlError: the text mixes kinds of placeholders, or has too many parameters.
    """
    return _names(_placeholders(text))


def numbered(text: ParsedText, intervals: Collection[int] = ()) -> ParsedText:
    """Return a text with `$1`, `$2`, … for its parameters; those with an index (from 0) in `intervals` get a cast."""
    return with_parameters(text, lambda i: f"CAST(${i + 1} AS INTERVAL)" if i in intervals else f"${i + 1}")


def with_parameters(text: ParsedText, write: Callable[[int], str]) -> ParsedText:
    """Return a text with each parameter replaced by `write(index)`; the first parameter has the index 0."""
    sql, placeholders = text.sql, _placeholders(text)
    indexes = _indexes(placeholders, _names(placeholders))
    parts, end = [], 0
    for token, index in zip(placeholders, indexes, strict=True):
        parts += [sql[end : token.start], write(index)]
        end = token.end
    return text.replaced("".join([*parts, sql[end:]]))


def each_row(parameters: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parameters one by one and lazily, because there can be millions of rows."""
    for batch in parameters.to_batches() if parameters is not None else []:
        yield from (batch.slice(i, 1) for i in range(batch.num_rows))


def bind(text: ParsedText, parameters: pa.RecordBatch | None) -> ParsedText:
    """Return a text with each placeholder replaced by the literal of its value; `parameters` has one row.

    A text without placeholders comes back as the same object.

    Each `?` takes the next column from left to right, and `$n` takes the n-th column. `:name` and `$name` take the
    column of this name. If the columns have other names, the first name in the text takes the first column, and so on.

    Raises:
        SqlError: the number of values or rows is wrong, or SQL has no literal for a value. An error about a value
            names its column.
        LimitExceededError: the values are too many or too large for a statement's text.
    """
    placeholders = _placeholders(text)
    names = _names(placeholders)
    wanted = len(names)
    given = parameters.num_columns if parameters is not None else 0
    if wanted != given:
        raise SqlError(f"the statement takes {wanted} parameters, but {given} are bound")
    if parameters is None or not placeholders:
        return text
    if parameters.num_rows != 1:
        raise SqlError(f"one row of parameters was expected, not {parameters.num_rows}")
    parameters = parameters.select(_order(names, parameters.schema))
    columns = _indexes(placeholders, names)
    items = [_read(parameters, column, count_items) for column in range(given)]
    if (found := sum(items[column] for column in columns if items[column] > 1)) > _MOST_ITEMS:
        raise _too_much(f"hold {found:,} values in lists, structs and maps", f"{_MOST_ITEMS:,}")
    _check_in(text)
    literals = [_read(parameters, column, literal) for column in range(given)]
    if (found := sum(len(literals[column]) for column in columns)) > _MOST_TEXT:
        raise _too_much(f"are {found:,} characters of SQL text", f"{_MOST_TEXT:,}")
    return with_parameters(text, literals.__getitem__)


def parameter_types(text: ParsedText, parameters: pa.Schema) -> Mapping[str, pa.DataType]:
    """Return the types of a statement's values by the placeholders of its tree; see `tree.with_numbers`.

    The result is empty if the statement takes another number of values.

    Raises:
        SqlError: the text mixes kinds of placeholders, or has too many parameters.
    """
    placeholders = _placeholders(text)
    names = _names(placeholders)
    if not placeholders or len(names) != len(parameters):
        return {}
    types = [parameters.field(place).type for place in _order(names, parameters)]
    columns = _indexes(placeholders, names)
    given = zip(placeholders, columns, strict=True)
    return {f"${column + 1}" if one.text == "?" else one.text: types[column] for one, column in given}


def _order(names: Sequence[str], parameters: pa.Schema) -> list[int]:
    """Return the places of the columns that the names of parameters mean: by name if these agree, else in order."""
    if sorted(names) == sorted(parameters.names):
        return [parameters.names.index(name) for name in names]
    return [*range(len(parameters))]


def _too_much(found: str, most: str) -> LimitExceededError:
    return LimitExceededError(
        f"the parameters of one row {found}; the limit is {most}: upload them as a table, and join it"
    )


def _placeholders(text: ParsedText) -> list[Token]:
    return [token for token in text.tokens if token.kind is TokenKind.PLACEHOLDER]


def _indexes(placeholders: list[Token], names: tuple[str, ...]) -> list[int]:
    """Return the index of each placeholder's parameter."""
    if any(map(_is_named, placeholders)):
        places = {name: index for index, name in enumerate(names)}
        return [places[token.text[1:]] for token in placeholders]
    return [index if token.text == "?" else int(token.text[1:]) - 1 for index, token in enumerate(placeholders)]


def _check_in(text: ParsedText) -> None:
    """Refuse a placeholder after the IN of lists; DataFusion's error names the literal, which the client did not send.

    `position('b' IN ?)` and `[x FOR x IN ?]` take one value there.
    """
    if "in" not in text.words:
        return
    for place, token in enumerate(text.tokens):
        if token.kind is TokenKind.PLACEHOLDER and text.is_word(place - 1, "in"):
            opening = text.scopes.around[place]
            searches = opening is not None and text.is_word(opening - 1, "position")
            if not searches and not text.is_word(place - 3, "for"):
                raise SqlError("IN takes no list as one parameter: write = any(?) in place of IN ?, or IN (?, …)")


def _is_named(placeholder: Token) -> bool:
    return placeholder.text != "?" and not placeholder.text[1:].isdecimal()


def _names(placeholders: list[Token]) -> tuple[str, ...]:
    if placeholders and all(map(_is_named, placeholders)):
        names = tuple(dict.fromkeys(token.text[1:] for token in placeholders))
        if len(names) > _MOST:
            raise _too_many()
        return names
    return tuple(map(str, range(_count(placeholders))))


def _too_many() -> SqlError:
    return SqlError(f"a statement takes up to {_MOST:,} parameters: upload the values to a table instead")


def _count(placeholders: list[Token]) -> int:
    marks = {token.text == "?" or _is_named(token) for token in placeholders}
    if len(marks) > 1 or any(map(_is_named, placeholders)):
        raise SqlError("the statement mixes kinds of parameters: write only ?, only $1, $2, …, or only :name")
    if marks <= {True}:
        count = len(placeholders)
    else:
        for token in placeholders:
            if not token.text[1:].strip("0"):
                raise SqlError(f"parameter {token.text[:80]!r} is unknown: the first parameter is $1")
        digits = max((token.text[1:].lstrip("0") for token in placeholders), key=lambda text: (len(text), text))
        count = int(digits) if len(digits) <= len(str(_MOST)) else _MOST + 1
    if count > _MOST:
        raise _too_many()
    return count


def _read(parameters: pa.RecordBatch, column: int, read: Callable[[pa.Scalar], _T]) -> _T:
    """Read a value; if that fails, raise an error that names its column.

    Some Arrow values have no equivalent in SQL or Python, so any exception can occur here.
    """
    value = parameters.column(column)[0]
    try:
        return read(value)
    except Exception as error:
        said = error if isinstance(error, SqlError) else no_literal(value.type)
        raise SqlError(f"parameter {column + 1} ({parameters.schema.names[column]!r}): {said}") from error
