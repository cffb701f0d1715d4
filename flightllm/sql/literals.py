"""Writer of Arrow values as SQL literals that keep value and type."""

import math
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.times_of_day import in_unit_of_time
from flightllm.errors import SqlError

_ARROW_NAMES: dict[str, str] = {
    "null": "Null",
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
    "month_day_nano_interval": "Interval(MonthDayNano)",
}
_LONG_LIST = 64
_PLAIN_NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float32(), pa.float64()),
)
_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def literal(value: pa.Scalar) -> str:
    """Return SQL that evaluates to the value, with its type.

    Large texts and views become plain texts. A dictionary value becomes a value of the dictionary's value type. A time
    of the day gets the unit of TIME.

    Raises:
        SqlError: SQL has no literal of the type.
    """
    kind = value.type
    if isinstance(kind, pa.BaseExtensionType):
        return literal(value.value)
    if (of_columns := in_unit_of_time(kind)) != kind:
        return literal(pa.repeat(value, 1).cast(of_columns)[0])
    if pa.types.is_dictionary(kind):
        return literal(value.cast(kind.value_type))
    if pa.types.is_null(kind):
        return "NULL"
    if pa.types.is_map(kind):
        return _map(value)
    if pa.types.is_union(kind):  # from clients that learn the type only as they send the value
        return literal(value.value) if value.value is not None else "NULL"
    if not value.is_valid:
        return f"arrow_cast(NULL, {arrow_type(kind)})"
    for matches, write in _WRITERS:
        if matches(kind):
            return write(value)
    raise no_literal(kind)


def count_items(value: pa.Scalar) -> int:
    """Return how many values `literal` writes for one value.

    The count of a list, a struct or a map is the number of values in it, at any depth.
    """
    kind = value.type
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind) or pa.types.is_union(kind):
        return count_items(value.value) if value.value is not None else 1
    if not value.is_valid or not pa.types.is_nested(kind):
        return 1
    if pa.types.is_struct(kind):
        return sum(count_items(value[index]) for index in range(len(kind)))
    return _items_in(value.values)


def _items_in(values: pa.Array) -> int:
    """Return how many values an array holds, nested values included, without a step for each value."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _items_in(values.storage)
    if pa.types.is_struct(kind):
        return len(values) + sum(map(_items_in, values.flatten()))
    if pa.types.is_dictionary(kind) or pa.types.is_union(kind):
        return sum(map(count_items, values))
    return len(values) + (_items_in(values.flatten()) if pa.types.is_nested(kind) else 0)


def no_literal(kind: pa.DataType) -> SqlError:
    """Return the error for a value whose type has no SQL literal."""
    return SqlError(f"a value of type {kind} cannot be bound: send it as text and CAST it")


def _text(value: pa.Scalar) -> str:
    return text_literal(value.as_py())


def text_literal(text: str) -> str:
    """Return a text as a SQL literal; raises `SqlError` if the text holds a NUL character."""
    if "\0" in text:
        raise SqlError("the text holds a NUL character: remove it")
    return "'" + text.replace("'", "''") + "'"


def _integer(value: pa.Scalar) -> str:
    number = value.as_py()
    if value.type == pa.int64() and number > -(2**63):
        return str(number) if number >= 0 else f"({number})"  # in parentheses: `--1` would be a comment
    return _cast(text_literal(str(number)), value.type)


def _float(value: pa.Scalar) -> str:
    number = float(value.as_py())
    if value.type == pa.float64() and math.isfinite(number):
        return f"({number!r})" if math.copysign(1.0, number) < 0 else repr(number)
    text = repr(number) if math.isfinite(number) else str(number).replace("nan", "NaN")
    return _cast(text_literal(text), value.type)


def _bytes(value: pa.Scalar) -> str:
    text = f"X'{value.as_py().hex()}'"
    return _cast(text, value.type) if pa.types.is_fixed_size_binary(value.type) else text


def _decimal(value: pa.Scalar) -> str:
    text = format(value.as_py(), "f")
    if value.type.scale >= 0:
        return _cast(text_literal(text), value.type)
    whole = pa.decimal128(38, 0) if len(text) < 38 else pa.decimal256(76, 0)  # texts have no negative scale
    return _cast(_cast(text_literal(text), whole), value.type)


def _ticks(value: pa.Scalar) -> str:
    """Write a date, time, duration or timestamp as its number of units, which is exact for any year."""
    number = pa.int32() if value.type.bit_width == 32 else pa.int64()
    return _cast(literal(pa.scalar(value.value, number)), value.type)


def _interval(value: pa.Scalar) -> str:
    months, days, nanoseconds = value.as_py()
    return _cast(f"'{months} months {days} days {nanoseconds} nanoseconds'", value.type)


def _list(value: pa.Scalar) -> str:
    items = _plain_numbers(value.values) or ", ".join(literal(item) for item in value.values)
    return _cast(f"[{items}]", value.type)


def _plain_numbers(values: pa.Array) -> str | None:
    """Write the numbers of a long list, as in a vector, without a step for each; None for other lists.

    The cast of the list gives each number its type, so a number of 32 bits is written as one of 64 bits.
    """
    kind = values.type
    if len(values) < _LONG_LIST or values.null_count or kind not in _PLAIN_NUMBERS:
        return None
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values)).as_py():
        return None
    if kind == pa.int64() and pc.min(values).as_py() == -(2**63):
        return None
    return ", ".join(map(repr, values.to_pylist()))


def _struct(value: pa.Scalar) -> str:
    parts = ", ".join(f"{text_literal(field.name)}, {literal(value[i])}" for i, field in enumerate(value.type))
    return _cast(f"named_struct({parts})", value.type)


def _map(value: pa.Scalar) -> str:
    """Write a map as `MAP(keys, values)`, because `arrow_cast` does not support map types."""
    kind = value.type
    entries = value.values if value.is_valid else None
    keys, items = (entries.field(0), entries.field(1)) if entries is not None else ([], [])
    text = f"MAP({_array(keys, kind.key_type)}, {_array(items, kind.item_type)})"
    return text if value.is_valid else f"CASE WHEN FALSE THEN {text} END"


def _array(items: Iterable[pa.Scalar], kind: pa.DataType) -> str:
    return _cast(f"[{', '.join(map(literal, items))}]", pa.list_(kind))


def _cast(text: str, kind: pa.DataType) -> str:
    return f"arrow_cast({text}, {arrow_type(kind)})"


def arrow_type(kind: pa.DataType) -> str:
    """Return the name of a type for `arrow_cast`, as a SQL literal.

    Raises:
        SqlError: `arrow_cast` has no name for the type.
    """
    return text_literal(_arrow_name(kind))


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
    if types.is_duration(kind):
        return f"Duration({_UNITS[kind.unit]})"
    if types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if types.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    if types.is_nested(kind):
        return _nested_name(kind)
    raise no_literal(kind)


def _nested_name(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_struct(kind):
        if any(char in field.name for field in kind for char in '"\\'):
            raise SqlError("a struct with a quote or backslash in a field's name cannot be bound")
        fields = ", ".join(f'"{field.name}": {_arrow_name(field.type)}' for field in kind)
        return f"Struct({fields})"
    if types.is_fixed_size_list(kind):
        return f"FixedSizeList({kind.list_size}, {_arrow_name(kind.value_type)})"
    if types.is_list(kind) or types.is_large_list(kind):
        size = "Large" if types.is_large_list(kind) else ""
        return f"{size}List({_arrow_name(kind.value_type)})"
    raise no_literal(kind)


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Scalar], str]], ...] = (
    (lambda kind: _ARROW_NAMES.get(str(kind)) == "Utf8", _text),
    (pa.types.is_boolean, lambda value: "TRUE" if value.as_py() else "FALSE"),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (lambda kind: _ARROW_NAMES.get(str(kind)) == "Binary" or pa.types.is_fixed_size_binary(kind), _bytes),
    (lambda kind: pa.types.is_temporal(kind) and not pa.types.is_interval(kind), _ticks),
    (pa.types.is_interval, _interval),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_struct, _struct),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind), _list),
)
