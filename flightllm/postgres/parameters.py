"""Values that clients bind to parameters, in text or binary form, as Arrow values."""

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.array_texts import MOST_DIMENSIONS, array_items
from flightllm.common.interval_texts import interval_of
from flightllm.common.switches import switch
from flightllm.postgres.failures import WireError
from flightllm.postgres.messages import Body, decoded
from flightllm.postgres.numerics import decimal_of
from flightllm.postgres.types import (
    BOOL,
    BYTEA,
    DATE,
    ELEMENTS,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    OID,
    TEXTS,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    arrow_of,
)

_EPOCH = date(2000, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
_DAY_MICROS = 86_400_000_000
_ZONE = re.compile(r"(:\d\d(?:\.\d+)?)\s*(Z|[+-]\d\d(?::?\d\d)?)$")
_DATED = re.compile(
    r"(\d+-\d+-\d+)(?:[T\s]\s*\d\d?:\d\d(?::\d\d(?:\.\d+)?)?)?\s*(?:Z|[+-]\d\d(?::?\d\d)?)?", re.IGNORECASE
)


def value_of(data: bytes | None, oid: int, *, binary: bool, kind: pa.DataType | None = None) -> pa.Array:
    """Return a bound value as an array of one value. A type without an oid is `kind`, or else text.

    Raises:
        WireError: the bytes are not a value of the type, or the type is unknown.
    """
    found = arrow_of(oid)
    if found is None:
        if binary and oid:
            raise WireError("0A000", f"values of the type with oid {oid} cannot be bound in binary form")
        found = kind or pa.string()
    if data is None:
        return pa.nulls(1, found)
    if kind is not None and oid in TEXTS and not binary:
        found = pa.string()
    try:
        value = _binary(data, oid) if binary else _text(decoded(data), oid, found)
        if oid == NUMERIC and isinstance(value, Decimal):
            return _decimal(value)
        return value if isinstance(value, pa.Array) else pa.array([value], found)
    except WireError:
        raise
    except (ValueError, struct.error, pa.ArrowException, OverflowError, InvalidOperation, IndexError) as error:
        shown = "binary data" if binary else f"input: {decoded(data)[:80]!r}"
        raise WireError("22P03" if binary else "22P02", f"invalid {shown} for a parameter of type {found}") from error


def _decimal(value: Decimal) -> pa.Array:
    """Return a decimal with its own scale; a value that is not finite becomes a float."""
    if not value.is_finite():
        return pa.array([float(value)])
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    return pa.array([value], pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale))


# --- binary


def _binary(data: bytes, oid: int) -> Any:
    if oid in ELEMENTS:
        return _array(Body(data), oid)
    if oid in TEXTS or oid == 0:
        return decoded(data)
    if oid == JSONB:
        return decoded(data[1:])
    found = _BINARY.get(oid)
    if found is None:
        raise WireError("0A000", f"values of the type with oid {oid} cannot be bound in binary form")
    return found(data)


def _number(form: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(form, data)[0]


def _interval(data: bytes) -> pa.MonthDayNano:
    micros, days, months = struct.unpack("!qii", data)
    return pa.MonthDayNano([months, days, micros * 1_000])


def _of_integer(form: str, kind: pa.DataType, shift: int = 0) -> Callable[[bytes], pa.Array]:
    whole = pa.int32() if form == "!i" else pa.int64()
    return lambda data: pa.array([struct.unpack(form, data)[0] + shift], whole).cast(kind)


_BINARY: Mapping[int, Callable[[bytes], Any]] = {
    BOOL: lambda data: bool(struct.unpack("!?", data)[0]),
    BYTEA: lambda data: data,
    INT2: _number("!h"),
    INT4: _number("!i"),
    INT8: _number("!q"),
    OID: _number("!I"),
    FLOAT4: _number("!f"),
    FLOAT8: _number("!d"),
    NUMERIC: decimal_of,
    INTERVAL: _interval,
    DATE: _of_integer("!i", pa.date32(), _EPOCH),
    TIME: _of_integer("!q", pa.time64("us")),
    TIMESTAMP: _of_integer("!q", pa.timestamp("us"), _EPOCH * _DAY_MICROS),
    TIMESTAMPTZ: _of_integer("!q", pa.timestamp("us", "UTC"), _EPOCH * _DAY_MICROS),
    UUID: lambda data: str(uuid.UUID(bytes=data)),
}


def _array(body: Body, oid: int) -> pa.Array:
    dimensions, _, element = body.int32(), body.int32(), body.int32()
    if dimensions == 0:
        return pa.array([[]], arrow_of(oid))
    if not 0 < dimensions <= MOST_DIMENSIONS:
        raise WireError("54000", f"number of array dimensions ({dimensions}) exceeds the maximum allowed")
    lengths = [(body.int32(), body.int32())[0] for _ in range(dimensions)]
    if element != ELEMENTS[oid] and not (element in TEXTS and ELEMENTS[oid] in TEXTS):
        raise WireError("42804", f"wrong element type {element} in an array of type {oid}")

    def read(depth: int) -> list[Any]:
        if lengths[depth] < 0:
            raise WireError("22P03", "incorrect binary data format: a negative array length")
        if depth + 1 < dimensions:
            return [read(depth + 1) for _ in range(lengths[depth])]
        return [
            None if (part := body.value()) is None else _item(_binary(part, element)) for _ in range(lengths[depth])
        ]

    items = read(0)
    return pa.array([items], _nested(_array_type(oid, items), dimensions))


def _item(value: Any) -> Any:
    return value[0].as_py() if isinstance(value, pa.Array) else value


def _array_type(oid: int, items: Any) -> pa.DataType:
    """Return the type of an array's elements; decimals get a scale that fits all of them."""
    kind = arrow_of(ELEMENTS[oid])
    if ELEMENTS[oid] != NUMERIC:
        return kind
    flat = list(items)
    while any(isinstance(item, list) for item in flat):
        flat = [part for item in flat for part in (item if isinstance(item, list) else [item])]
    return pa.array(flat).type if any(item is not None for item in flat) else kind


def _nested(kind: pa.DataType, dimensions: int) -> pa.DataType:
    for _ in range(dimensions):
        kind = pa.list_(kind)
    return kind


# --- text


def _text(text: str, oid: int, kind: pa.DataType) -> Any:  # noqa: C901 - one line for each kind of type
    if pa.types.is_list(kind):
        return _array_text(text, kind)
    if pa.types.is_boolean(kind):
        found = switch(text.strip())
        if found is None:
            raise ValueError(text)
        return found
    if oid == NUMERIC or pa.types.is_decimal(kind):
        return _decimal(Decimal(text.strip()))
    if pa.types.is_binary(kind):
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
    if pa.types.is_floating(kind):
        return float(text)
    if kind == pa.month_day_nano_interval():
        return interval_of(text)
    if pa.types.is_string(kind):
        return text
    if pa.types.is_time(kind):
        return time.fromisoformat(text.strip())
    if pa.types.is_timestamp(kind):
        return _timestamp(text.strip(), kind)
    if pa.types.is_date(kind) and (dated := _DATED.fullmatch(text.strip())):
        text = dated[1]  # as in PostgreSQL, a date ignores a time
    return pc.cast(pa.array([text.strip()]), kind)


def _timestamp(text: str, kind: pa.DataType) -> pa.Array:
    """Read a timestamp. As in PostgreSQL, a type without a zone ignores a zone. A text without a zone is in UTC."""
    found = _ZONE.search(text)
    bare = text if found is None else text[: found.end(1)]
    if found is not None and kind.tz is not None:
        return pc.cast(pa.array([bare + found[2]]), kind)
    value = pc.cast(pa.array([bare]), pa.timestamp("us"))
    return value if kind.tz is None else pc.assume_timezone(value, "UTC").cast(kind)


def _array_text(text: str, kind: pa.DataType) -> pa.Array:
    element = kind.value_type
    items = array_items(text)
    depth, first = 1, items
    while first and isinstance(first[0], list):
        depth, first = depth + 1, first[0]
    flat: list[pa.Array] = []

    def place(parts: list[Any]) -> list[Any]:
        found: list[Any] = []
        for part in parts:
            if isinstance(part, list):
                found.append(place(part))
            elif part is None:
                found.append(None)
            else:
                value = _text(part, 0, element)
                value = value if isinstance(value, pa.Array) else pa.array([value], element)
                flat.append(value)
                found.append(value[0].as_py())
        return found

    values = place(items)
    if pa.types.is_decimal(element) and flat:
        element = pa.array([value[0].as_py() for value in flat]).type
    return pa.array([values], _nested(element, depth))
