"""Write the JSON of a value by its type: structs by their fields, lists and maps by a lambda over their elements."""

from typing import Final

import pyarrow as pa

from flightllm.common.names import LAMBDA_PREFIX
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT, JSON_TEXT
from flightllm.sql.literals import text_literal
from flightllm.sql.query_columns import Type

_FIRST_DEPTH: Final = 90
"""The first number of the lambdas' parameters: those of a text have lower ones."""


def json_form(value: str, found: Type, depth: int = _FIRST_DEPTH, scalar: str = JSON_TEXT, of_bytes: str = "") -> str:
    """Return the SQL of the JSON of a value. `value` is its SQL, and its type can be unknown.

    `scalar` is the function that writes a value without parts. `of_bytes` is the form of bytes, if they have another.

    For a struct with the field `a`, that is `__json_object(make_array('a'), make_array(…))` of `get_field(value, 'a')`.
    """
    if of_bytes and found is not None and (pa.types.is_binary(found) or pa.types.is_large_binary(found)):
        return of_bytes.format(value)
    if found is None or not pa.types.is_nested(found):
        return f"{scalar}(CAST({value} AS VARCHAR), arrow_typeof({value}))"
    if pa.types.is_struct(found):
        return _struct(value, found, depth, scalar, of_bytes)
    if pa.types.is_map(found):
        names = f"arrow_cast(map_keys({value}), 'List(Utf8)')"
        made = f"{JSON_OBJECT}({names}, {_elements(f'map_values({value})', found.item_type, depth, scalar, of_bytes)})"
        return f"CASE WHEN {value} IS NOT NULL THEN {made} END"
    return f"{JSON_LIST}({_elements(value, found.value_type, depth, scalar, of_bytes)})"


def _struct(value: str, found: pa.StructType, depth: int, scalar: str, of_bytes: str) -> str:
    names = [text_literal(field.name) for field in found]
    if not names:
        return f"CASE WHEN {value} IS NOT NULL THEN '{{}}' END"
    fields = [
        json_form(f"get_field({value}, {name})", field.type, depth, scalar, of_bytes)
        for name, field in zip(names, found, strict=True)
    ]
    made = f"{JSON_OBJECT}(make_array({', '.join(names)}), make_array({', '.join(fields)}))"
    return f"CASE WHEN {value} IS NOT NULL THEN {made} END"


def _elements(value: str, element: pa.DataType, depth: int, scalar: str, of_bytes: str) -> str:
    name = f"{LAMBDA_PREFIX}{depth}_item"
    return f"array_transform({value}, lambda {name} : {json_form(name, element, depth + 1, scalar, of_bytes)})"
