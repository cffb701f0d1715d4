"""Write the functions of BigQuery that depend on the types of their values: FORMAT, JSON, and sums without overflow."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.names import (
    FORMAT_OF,
    JSON_LIST_OF,
    JSON_OBJECT_OF,
    JSON_OF,
    JSON_STRING_OF,
    SAFE_DIFFERENCE,
    SAFE_PRODUCT,
    SAFE_SUM,
)
from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT
from flightllm.functions.typed_texts import BASE64, HEXADECIMAL, JSON_STRING, TYPED_FORMAT, TYPED_JSON
from flightllm.functions.variant_objects import COMPACT
from flightllm.functions.variants import PARSED_JSON, VARIANT_JSON
from flightllm.sql.json_types import JsonType, JsonTypes
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, kind, name_of, unnested
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.query_columns import TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_SUMS: Final = {SAFE_SUM: "+", SAFE_DIFFERENCE: "-", SAFE_PRODUCT: "*"}
TYPED: Final = frozenset({FORMAT_OF, JSON_OF, JSON_STRING_OF, JSON_OBJECT_OF, JSON_LIST_OF, *_SUMS})
"""The functions that the pass rewrites; only the generator of other dialects writes them."""
_NO_VALUES: Final = "arrow_cast(make_array(), 'List(Utf8)')"
_OF_JSON: Final = frozenset(
    {
        JSON_OBJECT,
        JSON_LIST,
        TYPED_JSON,
        PARSED_JSON,
        VARIANT_JSON,
        "json_extract",
        JSON_OF,
        JSON_OBJECT_OF,
        JSON_LIST_OF,
    }
)
"""Functions whose values are JSON already."""
_JSON: Final = JsonType("JSON")
_LIKE_FIRST: Final = frozenset({"coalesce", "nullif", COMPACT, "json_extract"})
"""Functions whose values are JSON if their first argument is JSON; JSON_QUERY of a text gives a text."""


class _Types(ExpressionTypes):
    """The types of expressions, and which of them are JSON, whose values are texts."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        super().__init__(root, columns_of)
        self._json = _JsonValues(root, columns_of)

    def is_json(self, value: Json) -> bool:
        """Return whether a value is JSON already: a call, a stored JSON, or a column of one of these."""
        return _is_json(value) or self._json.is_json(value)


class _JsonValues(JsonTypes):
    """The types of expressions, in which the values of some calls are JSON."""

    def _type(self, expression: Json, types: Sequence[Type]) -> Type:
        like_first = kind(expression) == "Function" and function_name(body(expression)) in _LIKE_FIRST
        if _is_json(expression) or (like_first and isinstance(next(iter(types), None), JsonType)):
            return _JSON
        return super()._type(expression, types)


def typed_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `__json_of(a)` as the JSON of `a` by its type, and `__safe_sum(a, b)` as NULL where `a + b` overflows.

    Raises:
        UnsupportedError: a type is unknown, or a value calls a model and would call it twice.
    """
    own = own_functions(columns_of)
    types = _Types(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "Function" or (name := function_name(fields)) not in TYPED:
            return node
        given = arguments(fields)
        if changes_per_call(given, own):
            raise UnsupportedError("a value of the call would be computed twice: compute it in a subquery")
        if name in _SUMS:
            return _safe(given, _SUMS[name], types)
        if name == FORMAT_OF:
            return _formatted(given, types)
        if name == JSON_STRING_OF:
            return _json(given[0], types, JSON_STRING)
        if name == JSON_OBJECT_OF and any(_is_list(types.of(one)) for one in given[::2]):
            raise UnsupportedError(
                "JSON_OBJECT takes no lists of names and values here: write them in turn: JSON_OBJECT('name', value)"
            )
        json = [_json(one, types) for one in given]
        if name == JSON_OF:
            return json[0]
        if name == JSON_LIST_OF:
            return written(f"{JSON_LIST}(v)", v=_list("{}", json))
        return written(f"{JSON_OBJECT}(n, v)", n=_list("CAST({} AS VARCHAR)", given[::2]), v=_list("{}", json[1::2]))

    return tree.rebuilt(change)


def _list(form: str, given: Sequence[Json]) -> Json:
    if not given:
        return written(_NO_VALUES)
    names = {f"v{place}": one for place, one in enumerate(given)}
    return written(f"make_array({', '.join(form.format(name) for name in names)})", **names)


def _is_list(found: Type) -> bool:
    return found is not None and bool(pa.types.is_nested(found))


def _json(value: Json, types: _Types, scalar: str = TYPED_JSON) -> Json:
    inner = unnested(value)
    if types.is_json(inner):  # JSON keeps its numbers, and loses its blanks
        return written(f"{COMPACT}(v)", v=inner)
    if kind(inner) == "Dictionary" and body(inner):
        fields = [_json(one["value"], types, scalar) for one in body(inner)]
        keys = [text_literal(name_of(one["key"])) for one in body(inner)]
        return written(f"{JSON_OBJECT}(make_array({', '.join(keys)}), v)", v=_list("{}", fields))
    if kind(inner) == "Function" and function_name(body(inner)) == "named_struct":
        given = arguments(body(inner))
        fields = [_json(one, types, scalar) for one in given[1::2]]
        return written(f"{JSON_OBJECT}(n, v)", n=_list("{}", given[::2]), v=_list("{}", fields))
    if kind(inner) == "Array" and any(types.is_json(unnested(one)) for one in body(inner)["elem"]):
        return written(f"{JSON_LIST}(v)", v=_list("{}", [_json(one, types, scalar) for one in body(inner)["elem"]]))
    of_bytes = f"{scalar}(encode({{}}, 'base64pad'), '{BASE64}')"
    return written(json_form("v", types.of(value), scalar=scalar, of_bytes=of_bytes), v=value)


def _is_json(value: Json) -> bool:
    """Return whether a value is JSON already; TO_JSON is a `coalesce` of JSON and the text of null."""
    if kind(value) != "Function":
        return False
    name, given = function_name(body(value)), arguments(body(value))
    if name in _OF_JSON:
        return True
    return name in _LIKE_FIRST and given != [] and _is_json(unnested(given[0]))


def _formatted(given: Sequence[Json], types: _Types) -> Json:
    texts, kinds = list[Json](), list[Json]()
    for one in given[1:]:
        found = types.of(one)
        nested = found is not None and pa.types.is_nested(found)
        if found is not None and (pa.types.is_binary(found) or pa.types.is_large_binary(found)):
            texts.append(written("encode(v, 'hex')", v=one))
            kinds.append(written(text_literal(HEXADECIMAL)))
            continue
        texts.append(_json(one, types) if nested else written("CAST(v AS VARCHAR)", v=one))
        kinds.append(written("arrow_typeof(v)", v=one))
    return written(f"{TYPED_FORMAT}(t, v, k)", t=given[0], v=_list("{}", texts), k=_list("{}", kinds))


def _safe(given: Sequence[Json], operator: str, types: _Types) -> Json:
    found = [types.of(one) for one in given]
    if None in found:
        raise UnsupportedError(
            "SAFE_ADD, SAFE_SUBTRACT and SAFE_MULTIPLY need values of known types: write CAST(x AS INT64)"
        )
    if all(one is not None and (pa.types.is_integer(one) or pa.types.is_null(one)) for one in found):
        wide = "CAST({} AS DECIMAL(19, 0))"
        text = f"TRY_CAST({wide.format('a')} {operator} {wide.format('b')} AS BIGINT)"
    elif any(one is not None and pa.types.is_floating(one) for one in found):
        made = f"(CAST(a AS DOUBLE) {operator} CAST(b AS DOUBLE))"
        most = "abs(CAST({} AS DOUBLE)) = CAST('inf' AS DOUBLE)"
        text = (
            f"CASE WHEN {most.format(made)} AND NOT ({most.format('a')}) AND NOT ({most.format('b')}) THEN NULL"
            f" ELSE {made} END"
        )
    else:
        text = f"(a {operator} b)"
    return written(text, a=given[0], b=given[1])
