"""SQLAlchemy's types over this server: types of its own, how values go there and back, and the types of columns."""

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlalchemy import types
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, INTERVAL, UUID
from sqlalchemy.engine import Dialect
from sqlalchemy.types import JSON, NullType, TypeEngine

from flightllm.common.arrow_types import is_list

Processor = Callable[[Any], Any] | None
Uuid: Any = getattr(types, "Uuid", UUID)  # SQLAlchemy 1.4 has only the type of PostgreSQL
_DIGITS = 38
"""Most digits of an exact number."""


class Struct(TypeEngine):
    """A struct, whose values are dictionaries; `fields` are its names and types."""

    __visit_name__ = "STRUCT"
    cache_ok = True

    def __init__(self, *fields: tuple[str, TypeEngine]) -> None:
        self.fields = fields


class Map(TypeEngine):
    """A map of one kind of key to one kind of value. The server refuses it in CREATE TABLE."""

    __visit_name__ = "MAP"
    cache_ok = True

    def __init__(self, key: TypeEngine, value: TypeEngine) -> None:
        self.key = key
        self.value = value


class UnsignedInteger(types.BigInteger):
    """Whole numbers of up to 64 bits without a sign."""

    __visit_name__ = "UNSIGNED"


class TextUuid(Uuid):
    """UUIDs, which the server keeps as text."""

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Return what makes texts of UUIDs."""
        del dialect
        return lambda value: None if value is None else str(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        """Return what makes UUIDs of texts, if the type asks for them."""
        del dialect, coltype
        return (lambda value: None if value is None else uuid.UUID(value)) if self.as_uuid else None

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what makes literals of UUIDs."""
        del dialect
        return lambda value: f"'{value}'"


class Span(INTERVAL):
    """Time spans, which the server keeps as intervals."""

    @classmethod
    def adapt_emulated_to_native(cls, interval: Any, **kw: Any) -> "Span":
        """Return the type that stands for SQLAlchemy's `Interval`."""
        del interval, kw
        return cls()

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what makes literals of time spans."""
        del dialect
        return _literal_span


def _literal_span(value: dt.timedelta) -> str:
    return f"INTERVAL '{value.days} days {value.seconds}.{value.microseconds:06d} seconds'"


class Exact(types.Numeric):
    """Exact numbers."""

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what makes literals: a number with a point is a double beside a column."""
        del dialect
        return _literal_number


def _literal_number(value: Any) -> str:
    exponent = Decimal(str(value)).as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    return f"CAST('{value}' AS NUMERIC({_DIGITS}, {scale}))" if scale else str(value)


class Binary(types.LargeBinary):
    """Bytes."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        """Return nothing: the server sends bytes."""
        del dialect, coltype
        return None

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what makes literals of bytes."""
        del dialect
        return lambda value: f"X'{value.hex()}'"


class JsonIndex(JSON.JSONIndexType):
    """The name or the place of one element of JSON, which the server wants as a literal."""

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what writes a name or a place."""
        del dialect
        return _step


class JsonPath(JSON.JSONPathType):
    """Names and places that lead to an element of JSON, as arguments of a function."""

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Return what writes names and places."""
        del dialect
        return lambda path: ", ".join(_step(step) for step in path)


def _step(step: str | int) -> str:
    return str(step) if isinstance(step, int) else "'" + step.replace("'", "''") + "'"


SPECIFIC: Mapping[type[TypeEngine], type[TypeEngine]] = {
    Uuid: TextUuid,
    types.Numeric: Exact,
    types.Float: types.Float,
    types.Interval: Span,
    INTERVAL: Span,
    types.LargeBinary: Binary,
    JSON.JSONIndexType: JsonIndex,
    JSON.JSONIntIndexType: JsonIndex,
    JSON.JSONStrIndexType: JsonIndex,
    JSON.JSONPathType: JsonPath,
}
"""The types of this dialect by the types of SQLAlchemy that they replace."""

_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], type[TypeEngine]], ...] = (
    (pa.types.is_boolean, types.BOOLEAN),
    (pa.types.is_int8, types.SMALLINT),
    (pa.types.is_int16, types.SMALLINT),
    (pa.types.is_uint8, types.SMALLINT),
    (pa.types.is_int32, types.INTEGER),
    (pa.types.is_uint16, types.INTEGER),
    (pa.types.is_int64, types.BIGINT),
    (pa.types.is_uint32, types.BIGINT),
    (pa.types.is_uint64, UnsignedInteger),
    (pa.types.is_float64, DOUBLE_PRECISION),
    (pa.types.is_floating, types.REAL),
    (pa.types.is_string, types.VARCHAR),
    (pa.types.is_large_string, types.VARCHAR),
    (pa.types.is_string_view, types.VARCHAR),
    (pa.types.is_binary, types.LargeBinary),
    (pa.types.is_large_binary, types.LargeBinary),
    (pa.types.is_binary_view, types.LargeBinary),
    (pa.types.is_fixed_size_binary, types.LargeBinary),
    (pa.types.is_date, types.DATE),
    (pa.types.is_time, types.TIME),
    (pa.types.is_interval, INTERVAL),
    (pa.types.is_duration, INTERVAL),
)


def of_arrow(kind: pa.DataType) -> TypeEngine:
    """Return SQLAlchemy's type of an Arrow type; `NullType` if SQLAlchemy lacks it."""
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return JSON()
        return Uuid() if kind.extension_name == "arrow.uuid" else of_arrow(kind.storage_type)
    if pa.types.is_decimal(kind):
        return types.NUMERIC(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return types.TIMESTAMP(timezone=kind.tz is not None)
    if pa.types.is_dictionary(kind):
        return of_arrow(kind.value_type)
    if is_list(kind):
        inner = of_arrow(kind.value_type)
        if isinstance(inner, types.ARRAY):
            return types.ARRAY(inner.item_type, dimensions=(inner.dimensions or 1) + 1)
        return types.ARRAY(inner, dimensions=1)
    if pa.types.is_struct(kind):
        return Struct(*((part.name, of_arrow(part.type)) for part in kind.fields))
    if pa.types.is_map(kind):
        return Map(of_arrow(kind.key_type), of_arrow(kind.item_type))
    return next((found() for test, found in _SIMPLE if test(kind)), NullType())
