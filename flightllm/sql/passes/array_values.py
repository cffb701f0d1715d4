"""Read and change arrays as PostgreSQL does: DataFusion reads `{a,b}` as one element, and adds NULL as an element."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from flightllm.common.array_texts import array_items
from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, cast_type, function_name

FUNCTIONS: Final = frozenset({"array_length"})
"""The function whose result differs."""
CONTAINS: Final = frozenset({"@>", "<@"})
"""The operators whose result differs for an element that is NULL."""
WORDS: Final = frozenset({"::", "||", "cast", *CONTAINS, *FUNCTIONS})
"""The words and marks of which a text must have one for this pass."""
_CONTAINED: Final = (
    "(CASE WHEN array_length(w) IS NOT DISTINCT FROM array_length(array_compact(w)) THEN v @> w"
    " WHEN v IS NOT NULL THEN false END)"
)
"""Whether an array has all elements of another one: no element equals NULL."""
_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})


def has_array(text: ParsedText) -> bool:
    """Return whether a text names the type of an array, writes an array beside `||`, or calls such a function."""
    return "[" in text.sql or not CONTAINS.isdisjoint(text.marks) or not FUNCTIONS.isdisjoint(text.words)


def array_values(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `'{a,b}'::text[]` as `ARRAY['a', 'b']::text[]`, and `ARRAY[1] || NULL` as `ARRAY[1]`.

    `array_length` of an empty array is NULL, and no array contains NULL.

    Raises:
        UnsupportedError: a cast to an array reads another text than the literal of such an array.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "Cast":
            return _cast(tree, types, node)
        if name == "BinaryOp" and fields["op"] == "StringConcat":
            sides = [(fields[a], fields[b]) for a, b in (("left", "right"), ("right", "left"))]
            return next((one for one, other in sides if _is_list(types, one) and _is_null(other)), node)
        if name == "BinaryOp" and fields["op"] in _SIDES:
            return _contained(types, node)
        if name == "Function" and function_name(fields) == "array_length":
            return written("nullif(v, 0)", v=node)
        return node

    return tree.rebuilt(change)


_SIDES: Final = {"AtArrow": ("left", "right"), "ArrowAt": ("right", "left")}
"""By the operator, the sides with the array that contains and with the elements."""


def _contained(types: ExpressionTypes, node: Node) -> Json:
    fields = body(node)
    whole, part = (fields[side] for side in _SIDES[fields["op"]])
    inner = unnested(part)
    plain = kind(inner) == "Array" and all(kind(one) == "Value" and not _is_null(one) for one in body(inner)["elem"])
    if plain or not (_is_list(types, whole) or _is_list(types, part)):
        return node
    return written(_CONTAINED, v=whole, w=part)


def _is_list(types: ExpressionTypes, value: Json) -> bool:
    found = types.of(value)
    return found is not None and bool(pa.types.is_list(found))


def _is_null(value: Json) -> bool:
    inner = unnested(value)
    return kind(inner) == "Value" and body(inner)["value"] == "Null"


def _cast(tree: Tree, types: ExpressionTypes, cast: Node) -> Json:
    """Return a cast to an array whose text became an array; the same object for other casts."""
    fields = body(cast)
    target, value = cast_type(fields["data_type"]), fields["expr"]
    if target is None or not pa.types.is_list(target) or types.of(value) != pa.string():
        return cast
    return {"Cast": {**fields, "expr": array_of(tree, value, target)}}


def array_of(tree: Tree, value: Json, target: pa.DataType) -> Json:
    """Return the array of texts that a literal such as `'{a,b}'` is, for an array of a type.

    Raises:
        UnsupportedError: the value is another text, or its arrays are not as deep as those of the type.
    """
    inner = unnested(value)
    is_text = kind(inner) == "Value" and kind(body(inner)["value"]) in _TEXTS
    try:
        return _array(array_items(str(body(body(inner)["value"])) if is_text else ""), target)
    except ValueError as error:
        raise UnsupportedError(
            f"the text at {tree.position(value)} must be the literal of an array, as deep as its type: write ARRAY[…],"
            " or string_to_array(…, ',')"
        ) from error


def _array(items: Sequence[Any], target: pa.DataType) -> Json:
    if not items:
        return written("make_array()")
    return {"Array": {"elem": [_item(one, target.value_type) for one in items], "named": True}}


def _item(item: Any, target: pa.DataType) -> Json:
    if isinstance(item, list) != pa.types.is_list(target):
        raise ValueError(item)
    if isinstance(item, list):
        return _array(item, target)
    return {"Value": {"value": "Null" if item is None else {"SingleQuotedString": item}, SPAN: NOWHERE}}
