"""The names of types in SQL, from DataFusion's names of them: `BIGINT[]` for `List(Int64)`."""

import re
from typing import Final

import pyarrow as pa

TYPE_NAME: Final = "__type_name"
"""The name of `type_names` as an SQL function."""
_NAMES: Final = {
    "Null": '"NULL"',
    "Boolean": "BOOLEAN",
    **{f"Int{bits}": name for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"), (64, "BIGINT"))},
    **{f"UInt{bits}": name for bits, name in ((8, "UTINYINT"), (16, "USMALLINT"), (32, "UINTEGER"), (64, "UBIGINT"))},
    **dict.fromkeys(("Float16", "Float32"), "FLOAT"),
    "Float64": "DOUBLE",
    **dict.fromkeys(("Utf8", "LargeUtf8", "Utf8View"), "VARCHAR"),
    **dict.fromkeys(("Binary", "LargeBinary", "BinaryView"), "BLOB"),
    **dict.fromkeys(("Date32", "Date64"), "DATE"),
}
_LIST: Final = re.compile(r"(?:Large)?List(?:View)?\((?:non-null )?(.*)\)", re.DOTALL)
_FIXED: Final = re.compile(r"FixedSizeList\((\d+) x (?:non-null )?(.*)\)", re.DOTALL)
_DECIMAL: Final = re.compile(r"Decimal\d+\((\d+), (-?\d+)\)")
_FIELD: Final = re.compile(r'"((?:[^"\\]|\\.)*)": (?:non-null )?')
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")


def type_names(names: pa.Array) -> pa.Array:
    """Return the names in SQL of types that DataFusion's `arrow_typeof` names; other names stay."""
    return pa.array([None if one is None else _name(one) for one in names.to_pylist()], pa.string())


def _name(given: str) -> str:
    if given in _NAMES:
        return _NAMES[given]
    if found := _LIST.fullmatch(given):
        return f"{_name(found[1])}[]"
    if found := _FIXED.fullmatch(given):
        return f"{_name(found[2])}[{found[1]}]"
    if found := _DECIMAL.fullmatch(given):
        return f"DECIMAL({found[1]},{found[2]})"
    if given.startswith("Struct("):
        return f"STRUCT({', '.join(_fields(given.removeprefix('Struct(').removesuffix(')')))})"
    if given.startswith("Timestamp("):
        return "TIMESTAMP WITH TIME ZONE" if '"' in given else "TIMESTAMP"
    kind = given.partition("(")[0]
    return {"Time32": "TIME", "Time64": "TIME", "Interval": "INTERVAL", "Duration": "INTERVAL"}.get(kind, given)


def _fields(text: str) -> list[str]:
    """Return the fields of a struct: `a VARCHAR` for `"a": Utf8`."""
    found, begin = [], 0
    while field := _FIELD.match(text, begin):
        end = _end(text, field.end())
        name = field[1].replace('\\"', '"')
        shown = name if _PLAIN.match(name) else '"' + name.replace('"', '""') + '"'
        found.append(f"{shown} {_name(text[field.end() : end])}")
        begin = end + len(", ")
    return found


def _end(text: str, begin: int) -> int:
    """Return where the type that begins at a place ends: at a comma outside of brackets and quotes."""
    depth, quoted = 0, False
    for place in range(begin, len(text)):
        sign = text[place]
        if sign == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth == 0:
                return place
    return len(text)
