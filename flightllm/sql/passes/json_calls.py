"""Write PostgreSQL's functions and operators of JSON: JSON is text, and a jsonb is a text in one form."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.array_texts import array_items
from flightllm.errors import UnsupportedError
from flightllm.functions import jsonb
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT
from flightllm.functions.value_texts import INTERVAL_TEXT
from flightllm.sql.json_types import JsonTypes
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, arguments, function_name, other_aggregate

_Rule = Callable[[Node, Sequence[Json], "_Types"], Json]
_NO_VALUES: Final = "arrow_cast(make_array(), 'List(Utf8)')"
_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_OF_JSON: Final = frozenset(
    {*jsonb.NAMES, JSON_LIST, JSON_OBJECT, "json_extract", "json_object", "json_array", "to_json"}
)
"""Functions whose values are JSON already."""
_NOT_JSON: Final = frozenset({jsonb.TEXT_AT_PATH, jsonb.KIND, jsonb.CONTAINS, jsonb.HAS, jsonb.PRETTY})
_PATHS: Final = {"HashArrow": jsonb.AT_PATH, "HashLongArrow": jsonb.TEXT_AT_PATH}
_EQUALS: Final = frozenset({"Eq", "NotEq"})
_SIDES: Final = {"AtArrow": ("left", "right"), "ArrowAt": ("right", "left")}


class _Types(ExpressionTypes):
    """The types of expressions, for which a JSON is a text, and as declared."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        super().__init__(root, columns_of)
        self.declared = JsonTypes(root, columns_of)


def json_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `jsonb_build_object('a', b)` and `j #>> '{a,b}'` by functions over JSON texts.

    Raises:
        UnsupportedError: a value calls a model, and its type would call it again; or a name lacks a value.
    """
    own = own_functions(columns_of)
    types = _Types(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, own, types))


def _written(node: Node, own: Collection[str], types: _Types) -> Json:
    fields = body(node)
    if kind(node) == "BinaryOp":
        return _operation(node, types)
    if kind(node) != "Function" or (name := function_name(fields)) not in CALLS or name in own:
        return node
    given = arguments(fields)
    listed = body(fields["args"])["args"] if kind(fields["args"]) == "List" else []
    if len(given) != len(listed):
        return node
    if name in _OF_VALUES and changes_per_call(given, own):
        raise UnsupportedError(f"{name} would compute its values twice: compute them in a subquery")
    return _RULES[name](node, given, types)


def _operation(node: Node, types: _Types) -> Json:
    fields = body(node)
    left, right, operator = fields["left"], fields["right"], fields["op"]
    if operator in _PATHS:
        return written(f"{_PATHS[operator]}(v, w)", v=left, w=_path(right))
    if operator in _SIDES:
        whole, part = (fields[side] for side in _SIDES[operator])
        texts = types.of(whole) == pa.string() or types.of(part) == pa.string()
        known = (
            _is_json(whole, types)
            or _is_json(part, types)
            or (texts and not _is_list(whole, types) and not _is_list(part, types))
        )
        return written(f"{jsonb.CONTAINS}(v, w)", v=whole, w=part) if known else node
    if operator in _EQUALS and _is_json(left, types) and _is_json(right, types):
        sides = {side: written(f"{jsonb.SAME}(v)", v=fields[side]) for side in ("left", "right")}
        return {"BinaryOp": {**fields, **sides}}
    if operator == "StringConcat" and (_is_json(left, types) or _is_json(right, types)):
        if not all(_is_json(one, types) or _literal(one) is not None or _is_column(one) for one in (left, right)):
            return node
        return written(f"{jsonb.MERGED}(v, w)", v=left, w=right)
    if operator == "Minus" and (_is_json(left, types) or types.of(left) == pa.string()):
        return _without(node, left, right, types)
    return node


def _without(node: Node, left: Json, right: Json, types: _Types) -> Json:
    """Return `j - 'name'`, `j - 1` and `j - ARRAY['a', 'b']`."""
    given = types.of(right)
    if given == pa.string():
        return written(f"{jsonb.WITHOUT}(v, make_array(w), 'keys')", v=left, w=right)
    if given is not None and pa.types.is_list(given):
        return written(f"{jsonb.WITHOUT}(v, w, 'keys')", v=left, w=right)
    if given is not None and pa.types.is_integer(given) and _is_json(left, types):
        return written(f"{jsonb.WITHOUT}(v, make_array(CAST(w AS VARCHAR)), 'place')", v=left, w=right)
    return node


def _is_json(value: Json, types: "_Types") -> bool:
    """Return whether a value is surely JSON: the result of a cast or of a function, or a stored JSON."""
    if types.declared.is_json(value):
        return True
    inner = unnested(value)
    name = function_name(body(inner)) if kind(inner) == "Function" else ""
    return (name in _OF_JSON and name not in _NOT_JSON) or name in _MAKING


def _is_column(value: Json) -> bool:
    return kind(unnested(value)) in {"Identifier", "CompoundIdentifier"}


def _is_list(value: Json, types: _Types) -> bool:
    found = types.of(value)
    return found is not None and bool(pa.types.is_list(found))


def _literal(value: Json) -> str | None:
    inner = unnested(value)
    found: Json = body(inner)["value"] if kind(inner) == "Value" else None
    return str(body(found)) if kind(found) in _TEXTS else None


def _path(value: Json) -> Json:
    """Return the steps of `'{a,0}'` as a list of texts; another value is a list already."""
    text = _literal(value)
    if text is None:
        return value
    try:
        items = array_items(text)
    except ValueError as error:
        raise UnsupportedError(
            f"the path {text[:60]!r} cannot be read: write names and places, as in '{{a,0}}'"
        ) from error
    listed = [{"Value": {"value": {"SingleQuotedString": str(one)}, SPAN: NOWHERE}} for one in items]
    return {"Array": {"elem": listed, "named": False}} if listed else written(_NO_VALUES)


def _list(form: str, given: Sequence[Json]) -> Json:
    if not given:
        return written(_NO_VALUES)
    names = {f"v{place}": one for place, one in enumerate(given)}
    return written(f"make_array({', '.join(form.format(name) for name in names)})", **names)


def _json(value: Json, types: _Types) -> Json:
    if _is_json(value, types):
        return value
    found = types.of(value)
    if found == INTERVAL:
        return written(f"{jsonb.POSTGRES_JSON}({INTERVAL_TEXT}(v, false), 'Utf8')", v=value)
    return written(json_form("v", found, scalar=jsonb.POSTGRES_JSON), v=value)


def _object(*, binary: bool) -> _Rule:
    def rule(node: Node, given: Sequence[Json], types: _Types) -> Json:
        if len(given) % 2:
            name = function_name(body(node))
            raise UnsupportedError(f"{name} takes names and values in turn: write {name}('name', value)")
        names = _list("CAST({} AS VARCHAR)", given[::2])
        made = f"{jsonb.BUILT}(n, v, 'narrow')"
        values = _list("{}", [_json(one, types) for one in given[1::2]])
        return written(f"{jsonb.JSONB}({made})" if binary else made, n=names, v=values)

    return rule


def _list_of(*, binary: bool) -> _Rule:
    made = f"{jsonb.BUILT_LIST}(v)"

    def rule(_: Node, given: Sequence[Json], types: _Types) -> Json:
        values = _list("{}", [_json(one, types) for one in given])
        return written(f"{jsonb.JSONB}({made})" if binary else made, v=values)

    return rule


def _one(*, binary: bool) -> _Rule:
    def rule(node: Node, given: Sequence[Json], types: _Types) -> Json:
        if len(given) != 1:
            return node
        made = _json(given[0], types)
        return written(f"{jsonb.JSONB}(v)", v=made) if binary else made

    return rule


def _collected(*, binary: bool) -> _Rule:
    """Return the rule of `jsonb_agg(a ORDER BY b)`: a list of the JSON of each row."""

    def rule(node: Node, given: Sequence[Json], types: _Types) -> Json:
        if len(given) != 1:
            return node
        value = other_aggregate("array_agg", _json(given[0], types), node)
        made = written(f"{jsonb.BUILT_LIST}(v)", v=value)
        return written(f"{jsonb.JSONB}(v)", v=made) if binary else made

    return rule


def _by_name(*, binary: bool) -> _Rule:
    def rule(node: Node, given: Sequence[Json], types: _Types) -> Json:
        if len(given) != 2:
            return node
        names = other_aggregate("array_agg", written("CAST(v AS VARCHAR)", v=given[0]), node)
        values = other_aggregate("array_agg", _json(given[1], types), node)
        made = written(f"{jsonb.BUILT}(n, v, 'wide')", n=names, v=values)
        return written(f"{jsonb.JSONB}(v)", v=made) if binary else made

    return rule


def _at(called: str) -> _Rule:
    def rule(node: Node, given: Sequence[Json], _: _Types) -> Json:
        if len(given) < 2:
            return node
        return written(f"{called}(v, p)", v=given[0], p=_list("{}", given[1:]))

    return rule


def _set(node: Node, given: Sequence[Json], _: _Types) -> Json:
    if not 3 <= len(given) <= 4:
        return node
    create = given[3] if len(given) == 4 else written("true")
    return written(f"{jsonb.SET_AT}(v, p, w, c)", v=given[0], p=_path(given[1]), w=given[2], c=create)


def _named(form: str) -> _Rule:
    return lambda node, given, _: written(form, v=given[0]) if len(given) == 1 else node


def _length(node: Node, given: Sequence[Json], _: _Types) -> Json:
    return written("json_array_length(v)", v=given[0]) if len(given) == 1 else node


_RULES: Final[Mapping[str, _Rule]] = {
    "json_build_object": _object(binary=False),
    "jsonb_build_object": _object(binary=True),
    "json_build_array": _list_of(binary=False),
    "jsonb_build_array": _list_of(binary=True),
    "to_json": _one(binary=False),
    "to_jsonb": _one(binary=True),
    "array_to_json": _one(binary=False),
    "row_to_json": _one(binary=False),
    "json_agg": _collected(binary=False),
    "jsonb_agg": _collected(binary=True),
    "json_object_agg": _by_name(binary=False),
    "jsonb_object_agg": _by_name(binary=True),
    "jsonb_extract_path": _at(jsonb.AT_PATH),
    "jsonb_extract_path_text": _at(jsonb.TEXT_AT_PATH),
    "jsonb_set": _set,
    "jsonb_strip_nulls": _named(f"{jsonb.STRIPPED}(v)"),
    "jsonb_pretty": _named(f"{jsonb.PRETTY}(v)"),
    **dict.fromkeys(("jsonb_typeof", "json_typeof"), _named(f"{jsonb.KIND}(v)")),
    "jsonb_array_length": _length,
}
CALLS: Final = frozenset(_RULES)
"""The functions that the pass rewrites."""
_OF_VALUES: Final = frozenset(
    name for name in CALLS if name.startswith(("json_build", "jsonb_build", "to_json", "array_to", "row_to"))
) | {"json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"}
"""The functions that need the types of their values."""
_MAKING: Final = _OF_VALUES | {"jsonb_extract_path", "jsonb_set", "jsonb_strip_nulls"}
"""The functions whose values are JSON, before this pass writes them."""
_OPERATORS: Final = frozenset({"#>", "#>>", "@>", "<@"})
MARKS: Final = CALLS | _OPERATORS | {jsonb.JSONB, jsonb.JSON, jsonb.HAS, jsonb.WITHOUT, "||", "-"}
"""The words and marks of which a text must have one for this pass."""


def can_have_json(text: ParsedText) -> bool:
    """Return whether a text can call such a function or have such an operator beside JSON."""
    words = CALLS | {jsonb.JSONB, jsonb.JSON}
    between = any(text.is_symbol(index, "-") and _is_text(text, index + 1) for index in range(len(text.tokens)))
    return between or not _OPERATORS.isdisjoint(text.marks) or not words.isdisjoint(text.words)


def _is_text(text: ParsedText, index: int) -> bool:
    return text.tokens[index : index + 1] != [] and text.tokens[index].kind is TokenKind.STRING
