"""Write the texts of values as DuckDB does: of lists, intervals, numbers and times."""

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from flightllm.common.names import DUCKDB_JOINED, DUCKDB_JSON_OF, VALUE_TEXT
from flightllm.errors import UnsupportedError
from flightllm.functions.duckdb_json import DUCKDB_JSON, DUCKDB_VALUE_JSON
from flightllm.functions.duckdb_texts import DUCKDB_BYTES, DUCKDB_INTERVAL, DUCKDB_LIST, DUCKDB_LISTS, DUCKDB_TEXT
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT
from flightllm.functions.value_texts import VENDOR_DOUBLE
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.passes.duckdb_nested import nested_text
from flightllm.sql.passes.exact_numbers import digits_of
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.passes.text_values import decimal_literal
from flightllm.sql.query_columns import TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, arguments, function_name

VALUES: Final = frozenset({VALUE_TEXT, DUCKDB_JSON_OF})
"""The functions that the pass rewrites; only the generator of other dialects writes them."""
_OF_JSON: Final = frozenset({JSON_OBJECT, JSON_LIST, DUCKDB_JSON, DUCKDB_VALUE_JSON, "json_extract"})
"""Functions whose values are JSON already."""
_TIMESTAMP: Final = "rtrim(rtrim(to_char(v, '%Y-%m-%d %H:%M:%S%.6f'), '0'), '.')"
_CLOCK: Final = r"regexp_replace(CAST(v AS VARCHAR), '(\.\d*?)0+$', '\1')"
"""A time of day without zeros at the end of its fraction."""


def duckdb_texts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `__value_text(list, 'duckdb')` as the text of a list in DuckDB, such as `[a, NULL, 'b:c']`.

    A `concat` of lists is a list.
    """
    types, own = ExpressionTypes(tree.root, columns_of), own_functions(columns_of)

    def change(node: Node) -> Json:
        if kind(node) == "BinaryOp" and body(node)["op"] == "StringConcat":
            return _joined_bytes(node)
        name = function_name(body(node)) if kind(node) == "Function" else ""
        if name == "concat" and any(_is_list(types.of(one)) for one in arguments(body(node))):
            return {"Function": {**body(node), "name": body(written("array_concat(v)"))["name"]}}
        if name == DUCKDB_JSON_OF:
            return _json(arguments(body(node))[0], types, own)
        if name != VALUE_TEXT:
            return node
        value, style = arguments(body(node))
        return _duckdb_text(value, types, own, joined=DUCKDB_JOINED in text_of(style))

    return tree.rebuilt(change)


def _joined_bytes(node: Node) -> Json:
    """Return a join of two values of bytes as bytes; another join stays."""
    sides = [unnested(body(node)[side]) for side in ("left", "right")]
    if not all(kind(one) == "Function" and function_name(body(one)) == DUCKDB_BYTES for one in sides):
        return node
    left, right = (arguments(body(one))[0] for one in sides)
    return written("decode(encode(v, 'hex') || encode(w, 'hex'), 'hex')", v=left, w=right)


def _json(value: Json, types: ExpressionTypes, own: Collection[str]) -> Json:
    """Return the JSON of a value as DuckDB writes it.

    Raises:
        UnsupportedError: the value calls a model, and its type would call it again.
    """
    inner = unnested(value)
    if kind(inner) == "Function" and function_name(body(inner)) in _OF_JSON:
        return value
    if changes_per_call([value], own):
        raise UnsupportedError("to_json would compute its value twice: compute it in a subquery")
    return written(json_form("v", types.of(value), scalar=DUCKDB_VALUE_JSON), v=value)


def _is_list(found: Type) -> bool:
    return found is not None and pa.types.is_list(found)


def _duckdb_text(value: Json, types: ExpressionTypes, own: Collection[str], *, joined: bool) -> Json:
    """Return the text of a value as DuckDB writes it; in a join of texts, a list or an unknown value stays."""
    found = types.of(value)
    if joined and (found is None or pa.types.is_list(found) or pa.types.is_string(found)):
        return value
    digits = decimal_literal(value)
    if digits is not None:
        if "e" in text_of(value).lower():
            return written(f"{VENDOR_DOUBLE}(v, 'duckdb')", v=value)
        return {"Value": {"value": {"SingleQuotedString": digits}, SPAN: NOWHERE}}
    if found is None:
        twice = changes_per_call([value], own)
        return written(
            "CAST(v AS VARCHAR)" if twice else f"{DUCKDB_TEXT}(CAST(v AS VARCHAR), arrow_typeof(v))", v=value
        )
    return _typed_text(value, found, own)


def _typed_text(value: Json, found: pa.DataType, own: Collection[str]) -> Json:
    """Return the text of a value of a known type."""
    if pa.types.is_binary(found) or pa.types.is_large_binary(found):
        return written(f"{DUCKDB_BYTES}(v)", v=value)
    if _has_parts(found):
        if changes_per_call([value], own):
            raise UnsupportedError("the text would compute its value twice: compute it in a subquery")
        return written(nested_text("v", found), v=value)
    if pa.types.is_list(found):
        value = _exact_elements(value)
        deep = pa.types.is_list(found.value_type)
        name, listed = (DUCKDB_LISTS, "List(List(Utf8))") if deep else (DUCKDB_LIST, "List(Utf8)")
        kind_of = _kind_of(found.value_type.value_type if deep else found.value_type)
        return written(f"{name}(arrow_cast(v, '{listed}'), '{kind_of}')", v=value)
    return _plain_text(value, found)


def _plain_text(value: Json, found: pa.DataType) -> Json:
    if found == INTERVAL or pa.types.is_duration(found):
        return written(f"{DUCKDB_INTERVAL}(CAST(v AS INTERVAL), {str(found != INTERVAL).lower()})", v=value)
    if pa.types.is_float32(found):
        return written(f"{DUCKDB_TEXT}(CAST(v AS VARCHAR), 'Float32')", v=value)
    if pa.types.is_float64(found):
        return written(f"{VENDOR_DOUBLE}(v, 'duckdb')", v=value)
    if pa.types.is_timestamp(found):
        return written(_TIMESTAMP if found.tz is None else f"({_TIMESTAMP} || '+00')", v=value)
    return written(_CLOCK if pa.types.is_time(found) else "CAST(v AS VARCHAR)", v=value)


def _has_parts(found: pa.DataType) -> bool:
    """Return whether a value is a struct or a map, or a list whose elements need a text by their type."""
    if pa.types.is_fixed_size_list(found):
        return True
    if not pa.types.is_list(found):
        return bool(pa.types.is_nested(found))
    element = found.value_type.value_type if pa.types.is_list(found.value_type) else found.value_type
    special = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)
    return element == INTERVAL or any(test(element) for test in special)


def _kind_of(element: pa.DataType) -> str:
    """Return the name of a type as `duckdb_list` knows it; `Utf8` is a type whose usual text is right."""
    tests = {
        "Float32": pa.types.is_float32,
        "Float64": pa.types.is_floating,
        "Timestamp": pa.types.is_timestamp,
        "Time64": pa.types.is_time,
        "Interval": lambda one: one == INTERVAL or pa.types.is_duration(one),
        "Struct": pa.types.is_nested,
        "Binary": lambda one: pa.types.is_binary(one) or pa.types.is_large_binary(one),
    }
    return next((name for name, test in tests.items() if test(element)), "Utf8")


def _exact_elements(value: Json) -> Json:
    """Return a list of literals with a point as a list of decimals with equally many digits after it."""
    elements = body(value)["elem"] if kind(value) == "Array" else []
    sizes = [size for one in elements if (size := digits_of(one)) is not None]
    if not sizes or any(decimal_literal(one) is None and text_of(one).upper() != "NULL" for one in elements):
        return value
    return written(f"arrow_cast(v, 'List(Decimal128(38, {max(scale for _, scale in sizes)}))')", v=value)
