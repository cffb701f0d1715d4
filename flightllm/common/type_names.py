"""The names of types in SQL, as in DuckDB: `BIGINT[]` for a list of whole numbers."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow as pa

_TYPES: Final[Sequence[tuple[str, pa.DataType, str]]] = (
    ("Null", pa.null(), '"NULL"'),
    ("Boolean", pa.bool_(), "BOOLEAN"),
    ("Int8", pa.int8(), "TINYINT"),
    ("Int16", pa.int16(), "SMALLINT"),
    ("Int32", pa.int32(), "INTEGER"),
    ("Int64", pa.int64(), "BIGINT"),
    ("UInt8", pa.uint8(), "UTINYINT"),
    ("UInt16", pa.uint16(), "USMALLINT"),
    ("UInt32", pa.uint32(), "UINTEGER"),
    ("UInt64", pa.uint64(), "UBIGINT"),
    ("Float16", pa.float16(), "FLOAT"),
    ("Float32", pa.float32(), "FLOAT"),
    ("Float64", pa.float64(), "DOUBLE"),
    ("Utf8", pa.string(), "VARCHAR"),
    ("LargeUtf8", pa.large_string(), "VARCHAR"),
    ("Utf8View", pa.string_view(), "VARCHAR"),
    ("Binary", pa.binary(), "BLOB"),
    ("LargeBinary", pa.large_binary(), "BLOB"),
    ("BinaryView", pa.binary_view(), "BLOB"),
    ("Date32", pa.date32(), "DATE"),
    ("Date64", pa.date64(), "DATE"),
)
"""DataFusion's name, the type in Arrow, and the name in SQL."""
_OF_TYPE: Final[Mapping[pa.DataType, str]] = MappingProxyType({kind: name for _, kind, name in _TYPES})
_OF_TEXT: Final[Mapping[str, str]] = MappingProxyType({text: name for text, _, name in _TYPES})
_OF_UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {"Time32": "TIME", "Time64": "TIME", "Interval": "INTERVAL", "Duration": "INTERVAL"}
)
_LIST: Final = re.compile(r"(?:Large)?List(?:View)?\((?:non-null )?(.*)\)", re.DOTALL)
_ELEMENT: Final = re.compile(r", field: '[^']*'\Z")
"""Matches the name of a list's elements, which DataFusion writes where it is not `item`."""
_FIXED: Final = re.compile(r"FixedSizeList\((\d+) x (?:non-null )?(.*)\)", re.DOTALL)
_DECIMAL: Final = re.compile(r"Decimal\d+\((\d+), (-?\d+)\)")
_DICTIONARY: Final = re.compile(r"Dictionary\(\w+, (.*)\)", re.DOTALL)
_MAP: Final = re.compile(r'Map\("[^"]*": (?:non-null )?Struct\((.*)\), (?:un)?sorted\)', re.DOTALL)
_FIELD: Final = re.compile(r'"((?:[^"\\]|\\.)*)": (?:non-null )?')
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type, such as VARCHAR; a dictionary has the name of its values' type."""
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
        return f"STRUCT({', '.join(f'{_shown(part.name)} {type_name(part.type)}' for part in kind)})"
    if types.is_fixed_size_list(kind):
        return f"{type_name(kind.value_type)}[{kind.list_size}]"
    if types.is_nested(kind):
        return f"{type_name(kind.field(0).type)}[]"
    if types.is_interval(kind) or types.is_duration(kind):
        return "INTERVAL"
    return _OF_TYPE.get(kind, str(kind).upper())


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the values of an extension type are stored; other types stay."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def name_of_text(text: str) -> str:
    """Return the name of a type that DataFusion wrote: `Int64` becomes `BIGINT`; unknown texts stay."""
    if text in _OF_TEXT:
        return _OF_TEXT[text]
    if found := _LIST.fullmatch(text):
        return f"{name_of_text(_ELEMENT.sub('', found[1]))}[]"
    if found := _FIXED.fullmatch(text):
        return f"{name_of_text(_ELEMENT.sub('', found[2]))}[{found[1]}]"
    if found := _DECIMAL.fullmatch(text):
        return f"DECIMAL({found[1]},{found[2]})"
    if found := _DICTIONARY.fullmatch(text):
        return name_of_text(found[1])
    if found := _MAP.fullmatch(text):
        return f"MAP({', '.join(kind for _, kind in _fields(found[1]))})"
    if text.startswith("Struct("):
        fields = _fields(text.removeprefix("Struct(").removesuffix(")"))
        return f"STRUCT({', '.join(f'{_shown(name)} {kind}' for name, kind in fields)})"
    if text.startswith("Timestamp("):
        return "TIMESTAMP WITH TIME ZONE" if '"' in text else "TIMESTAMP"
    return _OF_UNITS.get(text.partition("(")[0], text)


def _shown(name: str) -> str:
    return name if _PLAIN.match(name) else '"' + name.replace('"', '""') + '"'


def _fields(text: str) -> list[tuple[str, str]]:
    """Return the fields of a struct with their types: `a` and `VARCHAR` for `"a": Utf8`."""
    found, begin = [], 0
    while field := _FIELD.match(text, begin):
        end = _end(text, field.end())
        found.append((field[1].replace('\\"', '"'), name_of_text(text[field.end() : end])))
        begin = end + len(", ")
    return found


def _end(text: str, begin: int) -> int:
    """Return where the type that begins at a place ends: at a comma outside of brackets and quotes."""
    depth, is_quoted = 0, False
    for place in range(begin, len(text)):
        sign = text[place]
        if sign == '"' and text[place - 1] != "\\":
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth == 0:
                return place
    return len(text)
