"""The names of types that DESCRIBE and SUMMARIZE show: those of SQL, as in DuckDB."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from datafusion import SessionContext

from flightllm.common.names import quoted
from flightllm.sql.literals import text_literal

_NAMES: Final[Mapping[pa.DataType, str]] = MappingProxyType(
    {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.uint8(): "UTINYINT",
        pa.uint16(): "USMALLINT",
        pa.uint32(): "UINTEGER",
        pa.uint64(): "UBIGINT",
        pa.float16(): "FLOAT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "VARCHAR"),
        **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "BLOB"),
        pa.date32(): "DATE",
        pa.date64(): "DATE",
        pa.null(): '"NULL"',
    }
)


def type_name(kind: pa.DataType) -> str:
    """Return DuckDB's name of a type, such as VARCHAR; a dictionary has the name of its values' type."""
    types, kind = pa.types, stored_type(kind)
    if types.is_dictionary(kind):
        return type_name(kind.value_type)
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    if types.is_time(kind):
        return "TIME"
    if types.is_map(kind):
        return f"MAP({type_name(kind.key_type)}, {type_name(kind.item_type)})"
    if types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(part.name)} {type_name(part.type)}' for part in kind)})"
    if types.is_nested(kind):
        return f"{type_name(kind.field(0).type)}[]"
    if types.is_interval(kind) or types.is_duration(kind):
        return "INTERVAL"
    return _NAMES.get(kind, str(kind).upper())


def name_of_text(text: str, context: SessionContext) -> str:
    """Return the name of a type that DataFusion wrote: `Int64` becomes `BIGINT`.

    DataFusion cannot read some of its own texts, such as those of fields with quotes in their names. These texts stay.
    """
    try:
        return type_name(context.sql(f"SELECT arrow_cast(NULL, {text_literal(text)})").schema().field(0).type)
    except Exception:  # noqa: BLE001 - DataFusion's own class
        return text


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the values of an extension type are stored; other types stay."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
