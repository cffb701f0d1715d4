"""Read and change arrays as PostgreSQL does: DataFusion reads `{a,b}` as one element, and adds NULL as an element."""

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, cast_type, function_name

FUNCTIONS: Final = frozenset({"array_length"})
"""The function whose result differs."""
_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_ELEMENT: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\\s](?:[^",{}\\]*[^",{}\\\s])?))\s*(?:,|$)')


def has_array(text: ParsedText) -> bool:
    """Return whether a text names the type of an array, writes an array beside `||`, or calls such a function."""
    return "[" in text.sql or not FUNCTIONS.isdisjoint(text.words)


def array_values(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `'{a,b}'::text[]` as `ARRAY['a', 'b']::text[]`, and `ARRAY[1] || NULL` as `ARRAY[1]`.

    `array_length` of an empty array is NULL.

    Raises:
        UnsupportedError: a cast to an array reads another text than a literal with one row of elements.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "Cast":
            return _cast(tree, types, node)
        if name == "BinaryOp" and fields["op"] == "StringConcat":
            sides = [(fields[a], fields[b]) for a, b in (("left", "right"), ("right", "left"))]
            return next((one for one, other in sides if _is_list(types, one) and _is_null(other)), node)
        if name == "Function" and function_name(fields) == "array_length":
            return written("nullif(v, 0)", v=node)
        return node

    return tree.rebuilt(change)


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
    return {"Cast": {**fields, "expr": array_of(tree, value)}}


def array_of(tree: Tree, value: Json) -> Json:
    """Return the array of texts that a literal such as `'{a,b}'` is.

    Raises:
        UnsupportedError: the value is another text, or has rows of elements.
    """
    elements = _elements(tree, value)
    if not elements:
        return written("make_array()")
    literals = [{"Value": {"value": _literal(one), SPAN: NOWHERE}} for one in elements]
    return {"Array": {"elem": literals, "named": True}}


def _literal(element: str | None) -> Json:
    return "Null" if element is None else {"SingleQuotedString": element}


def _elements(tree: Tree, value: Json) -> list[str | None]:
    """Return the elements of the literal of an array."""
    inner = unnested(value)
    is_text = kind(inner) == "Value" and kind(body(inner)["value"]) in _TEXTS
    text = str(body(body(inner)["value"])).strip() if is_text else ""
    if text[:1] == "{" and text[-1:] == "}":
        try:
            return list(_split(text[1:-1]))
        except ValueError:
            pass
    raise UnsupportedError(
        f"the text at {tree.position(value)} must be the literal of an array with one row of elements: write ARRAY[…],"
        " or string_to_array(…, ',')"
    )


def _split(text: str) -> Iterator[str | None]:
    """Yield the elements between the braces.

    Raises:
        ValueError: the text has another form.
    """
    place = 0
    while place < len(text.rstrip()):
        found = _ELEMENT.match(text, place)
        if found is None:
            raise ValueError(text)
        if found[1] is not None:
            yield re.sub(r"\\(.)", r"\1", found[1])
        else:
            yield None if found[2].upper() == "NULL" else found[2]
        place = found.end()
    if text.rstrip().endswith(","):
        raise ValueError(text)
