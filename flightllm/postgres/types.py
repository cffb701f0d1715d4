"""PostgreSQL's type for each Arrow type: its oid, its size and its modifier."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from flightllm.pg_catalog.columns import TYPE_KEY
from flightllm.pg_catalog.types import oids_by_name, pg_type, type_rows
from flightllm.postgres.messages import INT16, INT32, message, text

BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 114, 700, 701
VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2950
BPCHAR, CHAR, NAME, UNKNOWN, OID, JSONB, VOID = 1042, 18, 19, 705, 26, 3802, 2278
INT2VECTOR, OIDVECTOR = 22, 30
_WITH_ARRAYS = (
    *(BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT4, FLOAT8, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ),
    *(INTERVAL, NUMERIC, UUID, BPCHAR, NAME, OID, JSONB, CHAR),
)
ARRAYS: Mapping[int, int] = {oid: int(type_rows()[oid]["typarray"] or 0) for oid in _WITH_ARRAYS}
"""The oid of the array of each type."""
ELEMENTS: Mapping[int, int] = {array: element for element, array in ARRAYS.items()}
TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, CHAR, NAME, UNKNOWN, JSON})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result as clients see it."""

    name: str
    oid: int
    modifier: int = -1

    def described(self, code: int) -> bytes:
        """Return the column's part of RowDescription; `code` is its format."""
        size = int(type_rows()[self.oid]["typlen"] or 0)
        place = INT32.pack(0) + INT16.pack(0)
        return (
            text(self.name) + place + self.oid.to_bytes(4) + INT16.pack(size) + INT32.pack(self.modifier) + _CODES[code]
        )


_CODES = (INT16.pack(0), INT16.pack(1))


def row_description(columns: list[Column], codes: list[int]) -> bytes:
    """Return RowDescription."""
    parts = (column.described(code) for column, code in zip(columns, codes, strict=True))
    return message(b"T", len(columns).to_bytes(2), *parts)


def column_of(field: pa.Field) -> Column:
    """Return a result's column for a field."""
    if told_oid(field) is not None:
        return Column(field.name, oid_of_field(field))
    found = pg_type(field.type)
    return Column(field.name, found.oid, found.modifier)


def oid_of_field(field: pa.Field) -> int:
    """Return the oid of a column's or parameter's type."""
    told = told_oid(field)
    return oid_of(field.type) if told is None else told


def told_oid(field: pa.Field) -> int | None:
    """Return the type that the metadata of a column or parameter tells; None if the Arrow type tells it."""
    told = None if field.metadata is None else field.metadata.get(TYPE_KEY)
    return None if told is None else oids_by_name()[told.decode()]


def oid_of(kind: pa.DataType) -> int:
    """Return the oid of the type in which clients get values of an Arrow type; see `pg_type`."""
    return pg_type(kind).oid


def arrow_of(oid: int) -> pa.DataType | None:
    """Return the Arrow type of a parameter's type; None for an unknown type."""
    if oid in ELEMENTS:
        element = arrow_of(ELEMENTS[oid])
        return None if element is None else pa.list_(element)
    return _ARROW.get(oid)


_ARROW: Mapping[int, pa.DataType] = {
    BOOL: pa.bool_(),
    BYTEA: pa.binary(),
    INT2: pa.int16(),
    INT4: pa.int32(),
    INT8: pa.int64(),
    OID: pa.int64(),
    FLOAT4: pa.float32(),
    FLOAT8: pa.float64(),
    NUMERIC: pa.decimal128(38, 10),
    DATE: pa.date32(),
    TIME: pa.time64("us"),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    INTERVAL: pa.month_day_nano_interval(),
    UUID: pa.string(),
    JSONB: pa.string(),
    **dict.fromkeys(TEXTS - {UNKNOWN}, pa.string()),
}
