"""PostgreSQL's built-in types: the type that stands for each type of Arrow, and the names that PostgreSQL writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.common.type_names import type_name
from flightllm.pg_catalog.data import fixed_rows

_BY_ARROW: Mapping[pa.DataType, str] = {
    pa.null(): "text",
    pa.bool_(): "bool",
    pa.int8(): "int2",
    pa.int16(): "int2",
    pa.uint8(): "int2",
    pa.int32(): "int4",
    pa.uint16(): "int4",
    pa.int64(): "int8",
    pa.uint32(): "int8",
    pa.float16(): "float4",
    pa.float32(): "float4",
    pa.float64(): "float8",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.uint64(): "numeric",
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "text"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "bytea"),
}
_EXTENSIONS: Mapping[str, str] = {"arrow.uuid": "uuid", "arrow.json": "json"}
_NAMES: Mapping[str, str] = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "varchar": "character varying",
    "bpchar": "character",
    "varbit": "bit varying",
    "time": "time without time zone",
    "timetz": "time with time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "char": '"char"',
}
"""The names in SQL of the types whose names in `pg_type` differ."""
_SPELLINGS: Mapping[str, str] = {
    **{name: short for short, name in _NAMES.items() if short != "char"},
    "int": "int4",
    "float": "float8",
    "double": "float8",
    "decimal": "numeric",
    "char": "bpchar",
    '"char"': "char",
    "string": "text",
}


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of a column: its number in `pg_type`, and its length or precision, or -1."""

    oid: int
    modifier: int = -1
    dimensions: int = 0


@cache
def type_rows() -> Mapping[int, Mapping[str, str | None]]:
    """Return the rows of `pg_type` of the built-in types by oid."""
    return {int(row["oid"] or 0): row for row in fixed_rows("pg_type")}


@cache
def oids_by_name() -> Mapping[str, int]:
    """Return the oids of the built-in types by their names in `pg_type`."""
    return {str(row["typname"]): oid for oid, row in type_rows().items()}


@cache
def pg_type(kind: pa.DataType) -> PgType:
    """Return the type of PostgreSQL in which a client gets values of an Arrow type.

    | Arrow                    | PostgreSQL                |
    |--------------------------|---------------------------|
    | unsigned integer         | the next larger type      |
    | duration, interval       | interval                  |
    | list, also of lists      | array of the elements     |
    | struct, map, union       | json                      |
    | dictionary, run-end      | as the values             |
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        known = _EXTENSIONS.get(kind.extension_name)
        return pg_type(kind.storage_type) if known is None else PgType(oids_by_name()[known])
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return pg_type(kind.value_type)
    if is_list(kind):
        return _array_of(pg_type(kind.value_type))
    if types.is_decimal(kind):
        return PgType(oids_by_name()["numeric"], ((kind.precision << 16) | (kind.scale & 0x7FF)) + 4)
    return PgType(oids_by_name()[_BY_ARROW.get(kind) or _name_of(kind)])


def _name_of(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if types.is_time(kind):
        return "time"
    if types.is_interval(kind) or types.is_duration(kind) or str(kind) in ("month_interval", "day_time_interval"):
        return "interval"
    if types.is_fixed_size_binary(kind):
        return "bytea"
    return "json"


def _array_of(element: PgType) -> PgType:
    array = int(type_rows()[element.oid]["typarray"] or 0) or element.oid  # an array of arrays has the same type
    return PgType(array, element.modifier, element.dimensions + 1)


def shown_type(kind: pa.DataType) -> str:
    """Return the name of a type as `format_type` writes it; a type that PostgreSQL lacks has the server's name."""
    oid = pg_type(kind).oid
    return format_type(oid) if oid in type_rows() else type_name(kind)


def format_type(oid: int, modifier: int | None = None, own: Mapping[int, str] | None = None) -> str:
    """Return the name of a type in SQL, as PostgreSQL's function of this name; `own` has the names of other types."""
    row = type_rows().get(oid)
    if row is None:
        return (own or {}).get(oid, "-" if oid == 0 else "???")
    element = int(row["typelem"] or 0)
    if element and row["typcategory"] == "A" and row["typstorage"] != "p":  # a vector such as int2vector has a name
        return f"{format_type(element, modifier)}[]"
    name = str(row["typname"])
    shown = _NAMES.get(name, name)
    if modifier is None or modifier < 0:
        return "bpchar" if name == "bpchar" and modifier is not None else shown
    if name == "numeric":
        scale = (modifier - 4) & 0x7FF
        return f"numeric({(modifier - 4) >> 16 & 0xFFFF},{scale - 0x800 if scale > 0x3FF else scale})"
    if name in {"varchar", "bpchar"}:
        return f"{shown}({modifier - 4})"
    if name in {"time", "timetz", "timestamp", "timestamptz"}:
        before, space, after = shown.partition(" ")
        return f"{before}({modifier}){space}{after}"
    return shown


def type_oid(name: str) -> int | None:
    """Return the oid of the built-in type that a text names, such as `character varying(10)` or `int4[]`."""
    plain = re.sub(r"\s*\[\s*\]", "[]", name.strip().removeprefix("pg_catalog."))
    if plain.endswith("[]"):
        element = type_oid(plain[:-2])
        return None if element is None else int(type_rows()[element]["typarray"] or 0) or None
    plain = plain if plain.startswith('"') else re.sub(r"\s*\(.*?(\)|$)", "", plain).strip()
    lower = plain if plain.startswith('"') else plain.lower()
    return oids_by_name().get(_SPELLINGS.get(lower, lower.strip('"')))
