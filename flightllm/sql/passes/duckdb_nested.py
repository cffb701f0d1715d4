"""Write DuckDB's texts of structs, maps and lists by their types, such as `{'a': 1, 'b': [x, NULL]}`."""

from typing import Final

import pyarrow as pa

from flightllm.common.names import LAMBDA_PREFIX
from flightllm.functions.duckdb_texts import DUCKDB_BYTES, DUCKDB_ITEM
from flightllm.sql.literals import text_literal
from flightllm.sql.query_columns import Type

_FIRST_DEPTH: Final = 70
"""The first number of the lambdas' parameters: those of a text have lower ones."""


def nested_text(value: str, found: pa.DataType, depth: int = _FIRST_DEPTH) -> str:
    """Return the SQL of the text of a list, a struct or a map, which is NULL for NULL. `value` is its SQL."""
    if pa.types.is_struct(found):
        return f"CASE WHEN {value} IS NOT NULL THEN {_struct(value, found, depth)} END"
    name = f"{LAMBDA_PREFIX}{depth}_item"
    if pa.types.is_map(found):
        key = _item(f"get_field({name}, 'key')", found.key_type, depth + 1)
        item = _item(f"get_field({name}, 'value')", found.item_type, depth + 1)
        inner, signs, listed = f"{key} || '=' || {item}", "{}", f"map_entries({value})"
    else:
        inner, signs, listed = _item(name, found.value_type, depth + 1), "[]", value
    joined = f"array_to_string(array_transform({listed}, lambda {name} : {inner}), ', ')"
    return f"CASE WHEN {value} IS NOT NULL THEN '{signs[0]}' || coalesce({joined}, '') || '{signs[1]}' END"


def _struct(value: str, found: pa.StructType, depth: int) -> str:
    """Return the text of a struct; one without names of fields is a row, as in `(1, a)`."""
    row = [field.name for field in found] == [f"c{place}" for place in range(found.num_fields)]
    items = [_item(f"get_field({value}, {text_literal(field.name)})", field.type, depth) for field in found]
    names = ["" if row else f"{_name(field.name)}: " for field in found]
    parts = " || ', ' || ".join(f"{text_literal(name)} || {one}" for name, one in zip(names, items, strict=True))
    begin, end = "()" if row else "{}"
    return f"'{begin}' || {parts or text_literal('')} || '{end}'"


def _name(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _item(value: str, found: Type, depth: int) -> str:
    if found is not None and pa.types.is_nested(found):
        return f"coalesce({nested_text(value, found, depth)}, 'NULL')"
    if found is not None and (pa.types.is_binary(found) or pa.types.is_large_binary(found)):
        return f"{DUCKDB_ITEM}({DUCKDB_BYTES}({value}), 'Utf8')"
    return f"{DUCKDB_ITEM}(CAST({value} AS VARCHAR), arrow_typeof({value}))"
