"""PostgreSQL's type for each Arrow type: its oid, its size and its modifier."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from flightllm.pg_catalog.columns import TYPE_KEY
from flightllm.postgres.messages import INT16, INT32, message, text

BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 114, 700, 701
VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2950
BPCHAR, CHAR, NAME, UNKNOWN, OID, JSONB, VOID = 1042, 18, 19, 705, 26, 3802, 2278
INT2VECTOR, OIDVECTOR = 22, 30
ARRAYS: Mapping[int, int] = {
    BOOL: 1000,
    BYTEA: 1001,
    INT8: 1016,
    INT2: 1005,
    INT4: 1007,
    TEXT: 1009,
    JSON: 199,
    FLOAT4: 1021,
    FLOAT8: 1022,
    VARCHAR: 1015,
    DATE: 1182,
    TIME: 1183,
    TIMESTAMP: 1115,
    TIMESTAMPTZ: 1185,
    INTERVAL: 1187,
    NUMERIC: 1231,
    UUID: 2951,
    BPCHAR: 1014,
    NAME: 1003,
    OID: 1028,
    JSONB: 3807,
    CHAR: 1002,
}
"""The oid of the array of each type."""
ELEMENTS: Mapping[int, int] = {array: element for element, array in ARRAYS.items()}
TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, CHAR, NAME, UNKNOWN, JSON})
_SIZES: Mapping[int, int] = {
    BOOL: 1,
    INT8: 8,
    INT2: 2,
    INT4: 4,
    FLOAT4: 4,
    FLOAT8: 8,
    DATE: 4,
    TIME: 8,
    TIMESTAMP: 8,
    TIMESTAMPTZ: 8,
    INTERVAL: 16,
    UUID: 16,
    OID: 4,
    CHAR: 1,
    NAME: 64,
}
_HEADER = 4
"""PostgreSQL adds it to the precision and scale of a numeric's modifier."""
_PLAIN: Mapping[pa.DataType, int] = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.int16(): INT2,
    pa.int32(): INT4,
    pa.int64(): INT8,
    pa.uint8(): INT2,
    pa.uint16(): INT4,
    pa.uint32(): INT8,
    pa.uint64(): NUMERIC,
    pa.float16(): FLOAT4,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.null(): TEXT,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.binary_view(): BYTEA,
    pa.month_day_nano_interval(): INTERVAL,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result as clients see it."""

    name: str
    oid: int
    modifier: int = -1

    def described(self, code: int) -> bytes:
        """Return the column's part of RowDescription; `code` is its format."""
        size = _SIZES.get(self.oid, -1)
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
    kind = field.type
    if told_oid(field) is not None:
        return Column(field.name, oid_of_field(field))
    decimal = pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision
    return Column(field.name, oid_of(kind), (kind.precision << 16 | kind.scale) + _HEADER if decimal else -1)


def oid_of_field(field: pa.Field) -> int:
    """Return the oid of a column's or parameter's type."""
    told = told_oid(field)
    return oid_of(field.type) if told is None else told


def told_oid(field: pa.Field) -> int | None:
    """Return the type that the metadata of a column or parameter tells; None if the Arrow type tells it."""
    told = None if field.metadata is None else field.metadata.get(TYPE_KEY)
    return None if told is None else _OF_CATALOG[told.decode()]


_OF_CATALOG: Mapping[str, int] = {
    "oid": OID,
    "_oid": ARRAYS[OID],
    "name": NAME,
    "char": CHAR,
    "int2vector": INT2VECTOR,
    "oidvector": OIDVECTOR,
    "uuid": UUID,
    "_uuid": ARRAYS[UUID],
}


def oid_of(kind: pa.DataType) -> int:  # noqa: C901 - one line for each kind of type
    """Return the oid of the type in which clients get values of an Arrow type.

    | Arrow                    | PostgreSQL                |
    |--------------------------|---------------------------|
    | unsigned integer         | the next larger type      |
    | duration, interval       | interval                  |
    | list, also of lists      | array of the elements     |
    | struct, map, union       | json                      |
    | dictionary, run-end      | as the values             |
    """
    if (found := _PLAIN.get(kind)) is not None:
        return found
    if isinstance(kind, pa.BaseExtensionType):
        known = {"arrow.uuid": UUID, "arrow.json": JSON}
        return known.get(kind.extension_name) or oid_of(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return oid_of(kind.value_type)
    if is_list(kind):
        element = kind.value_type
        while is_list(element):
            element = element.value_type
        return ARRAYS[oid_of(element)]
    if pa.types.is_decimal(kind):
        return NUMERIC
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    if pa.types.is_time(kind):
        return TIME
    if pa.types.is_duration(kind) or str(kind) in ("month_interval", "day_time_interval"):
        return INTERVAL
    if pa.types.is_fixed_size_binary(kind):
        return BYTEA
    return JSON


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists, of any layout."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or str(kind).startswith(("list_view<", "large_list_view<"))
    )


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
