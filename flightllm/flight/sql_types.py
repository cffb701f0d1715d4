"""SQL's names and sizes of Arrow types, for JDBC and ODBC clients."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flightllm.common.arrow_types import declared

_DATETIME, _INTERVAL = 9, 10
"""The generic codes in `sql_data_type` that cover several types."""
_LONGEST = 2_147_483_647


@dataclass(frozen=True, slots=True)
class SqlType:
    """One SQL type. `code` is its XdbcDataType; `size` counts digits, bits (radix 2), characters or bytes."""

    name: str
    code: int
    size: int | None = None
    quote: tuple[str, str] | None = None
    parameters: tuple[str, ...] | None = None
    searchable: int = 2
    """0: not searchable, 2: by comparisons, 3: by LIKE too."""
    unsigned: bool | None = None
    """None for types that are not numbers."""
    scale: tuple[int, int] | None = None
    generic: int | None = None
    subcode: int | None = None
    radix: int | None = None

    def row(self) -> dict[str, Any]:
        """Return the type's row of GetXdbcTypeInfo."""
        prefix, suffix = self.quote or (None, None)
        least, most = self.scale or (None, None)
        return {
            "type_name": self.name,
            "data_type": self.code,
            "column_size": self.size,
            "literal_prefix": prefix,
            "literal_suffix": suffix,
            "create_params": None if self.parameters is None else list(self.parameters),
            "nullable": 1,
            "case_sensitive": self.name == "VARCHAR",
            "searchable": self.searchable,
            "unsigned_attribute": self.unsigned,
            "fixed_prec_scale": False,
            "auto_increment": None if self.unsigned is None else False,
            "local_type_name": self.name,
            "minimum_scale": least,
            "maximum_scale": most,
            "sql_data_type": self.generic or self.code,
            "datetime_subcode": self.subcode,
            "num_prec_radix": self.radix,
            "interval_precision": 9 if self.generic == _INTERVAL else None,
        }


def _whole(name: str, code: int, digits: int, *, unsigned: bool = False) -> SqlType:
    return SqlType(name, code, digits, unsigned=unsigned, scale=(0, 0), radix=10)


def _moment(name: str, code: int, size: int, subcode: int, *, precise: bool = True) -> SqlType:
    parameters, scale = (("precision",), (0, 9)) if precise else (None, None)
    quote = (f"{name} '", "'")
    return SqlType(name, code, size, quote, parameters, scale=scale, generic=_DATETIME, subcode=subcode)


_BOOLEAN = SqlType("BOOLEAN", -7, 1)
_INTEGERS = {
    8: (_whole("TINYINT", -6, 3), _whole("TINYINT UNSIGNED", -6, 3, unsigned=True)),
    16: (_whole("SMALLINT", 5, 5), _whole("SMALLINT UNSIGNED", 5, 5, unsigned=True)),
    32: (_whole("INTEGER", 4, 10), _whole("INTEGER UNSIGNED", 4, 10, unsigned=True)),
    64: (_whole("BIGINT", -5, 19), _whole("BIGINT UNSIGNED", -5, 20, unsigned=True)),
}
_REAL = SqlType("REAL", 7, 24, unsigned=False, radix=2)
_DOUBLE = SqlType("DOUBLE", 8, 53, unsigned=False, radix=2)
_DECIMAL = SqlType("DECIMAL", 3, 76, None, ("precision", "scale"), unsigned=False, scale=(0, 76), radix=10)
_VARCHAR = SqlType("VARCHAR", 12, _LONGEST, ("'", "'"), ("length",), searchable=3)
_BYTEA = SqlType("BYTEA", -3, _LONGEST, ("X'", "'"))
_DATE = _moment("DATE", 91, 10, 1, precise=False)
_TIME = _moment("TIME", 92, 18, 2, precise=False)
_TIMESTAMP = _moment("TIMESTAMP", 93, 29, 3)
_ZONED = _moment("TIMESTAMP WITH TIME ZONE", 93, 35, 5)
_INTERVALS = SqlType("INTERVAL", _INTERVAL, 64, ("INTERVAL '", "'"), generic=_INTERVAL)
_ARRAY, _STRUCT, _MAP, _OTHER = (SqlType(name, 0, searchable=0) for name in ("ARRAY", "STRUCT", "MAP", "OTHER"))

_ALL = (
    *(_BOOLEAN, *(kind for pair in _INTEGERS.values() for kind in pair), _REAL, _DOUBLE, _DECIMAL, _VARCHAR, _BYTEA),
    *(_DATE, _TIME, _TIMESTAMP, _ZONED, _INTERVALS, _ARRAY, _STRUCT, _MAP),
)
_TESTS: tuple[tuple[Callable[[pa.DataType], bool], SqlType], ...] = (
    (pa.types.is_boolean, _BOOLEAN),
    (pa.types.is_float64, _DOUBLE),
    (pa.types.is_floating, _REAL),
    (pa.types.is_decimal, _DECIMAL),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        _VARCHAR,
    ),
    (lambda kind: "binary" in str(kind) and not pa.types.is_nested(kind), _BYTEA),
    (pa.types.is_date, _DATE),
    (pa.types.is_time, _TIME),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, _ZONED),
    (pa.types.is_timestamp, _TIMESTAMP),
    (lambda kind: pa.types.is_interval(kind) or pa.types.is_duration(kind), _INTERVALS),
    (pa.types.is_struct, _STRUCT),
    (pa.types.is_map, _MAP),
    (pa.types.is_nested, _ARRAY),
)
_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def type_rows(code: int | None) -> list[dict[str, Any]]:
    """Return the rows of GetXdbcTypeInfo, of one XdbcDataType or of all, sorted by code and name."""
    chosen: Iterable[SqlType] = (kind for kind in _ALL if code is None or kind.code == code)
    return [kind.row() for kind in sorted(chosen, key=lambda kind: (kind.code, kind.name))]


def described(schema: pa.Schema, place: dict[str, str], *, read_only: bool) -> pa.Schema:
    """Return a table's schema with Flight SQL's metadata of each column.

    `place` has the names of catalog, schema and table.
    """
    return pa.schema(
        [
            field.with_metadata({**(field.metadata or {}), **_metadata(_storage(field.type), place, read_only)})
            for field in declared(schema)
        ]
    )


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _metadata(kind: pa.DataType, place: dict[str, str], read_only: bool) -> dict[str, str]:  # noqa: FBT001
    found = _sql_type(kind)
    precision, scale = _measures(kind, found)
    values: dict[str, object | None] = {
        **place,
        "TYPE_NAME": found.name,
        "PRECISION": precision,
        "SCALE": scale,
        "IS_AUTO_INCREMENT": 0,
        "IS_CASE_SENSITIVE": int(found is _VARCHAR),
        "IS_READ_ONLY": int(read_only),
        "IS_SEARCHABLE": int(found.searchable > 0),
    }
    return {f"ARROW:FLIGHT:SQL:{key}": str(value) for key, value in values.items() if value is not None}


def _sql_type(kind: pa.DataType) -> SqlType:
    if pa.types.is_integer(kind):
        return _INTEGERS[kind.bit_width][pa.types.is_unsigned_integer(kind)]
    return next((found for matches, found in _TESTS if matches(kind)), _OTHER)


def _measures(kind: pa.DataType, found: SqlType) -> tuple[int | None, int | None]:
    """Return the precision and the scale of a column."""
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return found.size, _UNITS[kind.unit]
    return found.size, 0 if pa.types.is_integer(kind) else None
