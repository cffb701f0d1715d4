"""Bound parameters put into SQL text as literals, token by token, so that a value can never become SQL."""

import math
from collections.abc import Callable

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.sql.tokens import Kind, Token, tokenize

_ARROW_NAMES: dict[str, str] = {
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "halffloat": "Float16",
    "float": "Float32",
    "double": "Float64",
    "string": "Utf8",
    "large_string": "Utf8",
    "string_view": "Utf8",
    "binary": "Binary",
    "large_binary": "Binary",
    "binary_view": "Binary",
    "date32[day]": "Date32",
    "date64[ms]": "Date64",
}
_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def count_parameters(sql: str) -> int:
    """Return how many values `sql` takes: the number of `?`, or the highest n of `$n`.

    Raises:
        SqlError: `?` and `$n` are mixed, or a placeholder is neither.
    """
    return _count([token for token in tokenize(sql) if token.kind is Kind.PLACEHOLDER])


def bind(sql: str, parameters: pa.RecordBatch | None) -> str:
    """Return `sql` with every placeholder replaced by the literal of its value; `parameters` has one row.

    `?` take the columns from left to right, `$n` the n-th column.

    Raises:
        SqlError: the number of values or rows does not fit, or a value's type has no literal; names the column.
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
    literals = [_named(parameters, column) for column in range(given)]
    parts, end = [], 0
    for index, token in enumerate(placeholders):
        column = index if token.text == "?" else int(token.text[1:]) - 1
        parts += [sql[end : token.start], literals[column]]
        end = token.end
    return "".join([*parts, sql[end:]])


def _count(placeholders: list[Token]) -> int:
    marks = {token.text == "?" for token in placeholders}
    if len(marks) > 1:
        raise SqlError("write either ? or $1, $2, … for parameters, not both")
    if not placeholders or marks == {True}:
        return len(placeholders)
    for token in placeholders:
        if not token.text[1:].isdecimal() or int(token.text[1:]) < 1:
            raise SqlError(f"parameter {token.text!r} is unknown: write ?, or $1, $2, …")
    return max(int(token.text[1:]) for token in placeholders)


def _named(parameters: pa.RecordBatch, column: int) -> str:
    try:
        return literal(parameters.column(column)[0])
    except SqlError as error:
        raise SqlError(f"parameter {column + 1} ({parameters.schema.names[column]!r}): {error}") from error


def literal(value: pa.Scalar) -> str:
    """Return SQL that evaluates to the value, with its type.

    Raises:
        SqlError: SQL has no literal of the type.
    """
    kind = value.type
    if isinstance(kind, pa.BaseExtensionType):
        return literal(value.value)
    if pa.types.is_dictionary(kind):
        return literal(value.cast(kind.value_type))
    if pa.types.is_null(kind):
        return "NULL"
    if not value.is_valid:
        return f"arrow_cast(NULL, '{_arrow_name(kind)}')"
    for matches, write in _WRITERS:
        if matches(kind):
            return write(value)
    raise SqlError(f"a value of type {kind} cannot be bound: send it as text and CAST it")


def _text(value: pa.Scalar) -> str:
    return _quoted(value.as_py())


def _quoted(text: str) -> str:
    if "\0" in text:
        raise SqlError("the text holds a NUL character")
    return "'" + text.replace("'", "''") + "'"


def _integer(value: pa.Scalar) -> str:
    number = value.as_py()
    if value.type == pa.int64() and number > -(2**63):
        return str(number) if number >= 0 else f"({number})"  # in parentheses: `--1` would be a comment
    return _cast(str(number), value.type)


def _float(value: pa.Scalar) -> str:
    number = float(value.as_py())
    if value.type == pa.float64() and math.isfinite(number):
        return f"({number!r})" if math.copysign(1.0, number) < 0 else repr(number)
    return _cast(repr(number) if math.isfinite(number) else str(number).replace("nan", "NaN"), value.type)


def _timestamp(value: pa.Scalar) -> str:
    kind = value.type
    naive = value.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    text = str(naive.cast(pa.string()))
    return _cast(f"{text.replace(' ', 'T')}Z" if kind.tz else text.replace(" ", "T"), kind)


def _list(value: pa.Scalar) -> str:
    items = ", ".join(literal(item) for item in value.values)
    return f"arrow_cast([{items}], '{_arrow_name(value.type)}')"


def _cast(text: str, kind: pa.DataType) -> str:
    return f"arrow_cast({_quoted(text)}, '{_arrow_name(kind)}')"


def _arrow_name(kind: pa.DataType) -> str:
    types = pa.types
    if name := _ARROW_NAMES.get(str(kind)):
        return name
    if types.is_timestamp(kind):
        zone = f'Some("{kind.tz}")' if kind.tz else "None"
        if kind.tz and not all(char.isalnum() or char in "/_+-:" for char in kind.tz):
            raise SqlError(f"the time zone {kind.tz!r} is unknown")
        return f"Timestamp({_UNITS[kind.unit]}, {zone})"
    if types.is_time(kind):
        return f"Time{kind.bit_width}({_UNITS[kind.unit]})"
    if types.is_decimal128(kind) or types.is_decimal256(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"List({_arrow_name(kind.value_type)})"
    raise SqlError(f"a value of type {kind} cannot be bound: send it as text and CAST it")


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Scalar], str]], ...] = (
    (lambda kind: _ARROW_NAMES.get(str(kind)) == "Utf8", _text),
    (pa.types.is_boolean, lambda value: "TRUE" if value.as_py() else "FALSE"),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (lambda kind: _ARROW_NAMES.get(str(kind)) == "Binary", lambda value: f"X'{value.as_py().hex()}'"),
    (pa.types.is_date, lambda value: _cast(value.as_py().isoformat(), value.type)),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, lambda value: _cast(str(value.cast(pa.string())), value.type)),
    (pa.types.is_decimal, lambda value: _cast(format(value.as_py(), "f"), value.type)),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_fixed_size_list, _list),
)
