"""Write a vendor's path, such as `answer:labels[0]`, by the type of the value that it reads."""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT, JSON_TEXT
from flightllm.functions.json_values import Step, read_path, written_path
from flightllm.functions.variant_objects import COMPACT, DELETED, GOT, INSERTED, OBJECT, PICKED, RAW
from flightllm.functions.variants import ELEMENTS, FLATTENED, OF_LIST, OF_TYPED, PARSED_JSON, VARIANT_JSON, VARIANT_TEXT
from flightllm.sql.json_types import JsonTypes
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, kind, text_of_literal, unnested
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, are_mixed, arguments, function_name

VALUE, QUOTED = "__variant_value", "__variant_quoted"
"""The names of functions that make JSON of any value; this pass replaces them.

A text is JSON for the first one, and becomes a JSON string in the second one.
"""
LISTED: Final = "__variant_listed"
"""The name of a function that makes a list of a JSON text; this pass replaces it. Any other value stays."""
MIXED: Final = "__variant_mixed"
"""The name of a function that makes a list of its arguments, or JSON if their types differ; this pass replaces it."""
FIELD: Final = "__json_field"
"""The name of a function of a value, a path and the field as written; this pass chooses by the type of the value."""
JOINED: Final = "__variant_joined"
"""The name that `concat_ws` of a dialect has until this pass, if the dialect joins the elements of lists."""
_LISTS: Final = frozenset(
    {
        *("array_agg", "make_array", "array_distinct", "array_sort", "array_remove", "array_concat", "array_slice"),
        *("string_to_array", "array_pop_front", "array_filter", "array_transform", "array_reverse", "flatten"),
        *("list_sort", "list_distinct", "list_transform", "list_filter", "list_concat", "list_slice", "list_value"),
        *("array_union", "array_intersect", "array_except"),
    }
)
"""Functions that return lists."""
MARKS: Final = frozenset(
    {":", VARIANT_TEXT, VARIANT_JSON, RAW, GOT, VALUE, QUOTED, ELEMENTS, JOINED, LISTED, FIELD, FLATTENED, "list_count"}
    | {MIXED}
)
"""The words and marks of which a text must have one for this pass."""
_ONE: Final = frozenset({ELEMENTS, LISTED, VALUE, QUOTED, COMPACT})
"""Functions of one value that are written by its type."""
_OPERATIONS: Final = frozenset({"BinaryOp", "UnaryOp"})
_VALUES: Final = frozenset(
    {
        "Identifier",
        "CompoundIdentifier",
        "CompoundFieldAccess",
        "Function",
        "Nested",
        "Cast",
        "Value",
        "Subquery",
        "Case",
    }
)
"""The values that a path can follow."""
_PATHS: Final = frozenset({VARIANT_TEXT, VARIANT_JSON, RAW})
_OF_JSON: Final = frozenset(
    {PARSED_JSON, VARIANT_JSON, RAW, GOT, OBJECT, INSERTED, PICKED, DELETED, COMPACT, JSON_TEXT, JSON_OBJECT, JSON_LIST}
)
"""Functions whose values are JSON already."""
_OF_STRUCTS: Final = ("response", "result", "choices", "messages", "message", "content")
"""The steps that lead to an answer, before its fields."""
_AROUND: Final = frozenset({"result", "status", "full_response"})
_ERRORS: Final = frozenset({"error", "errormessage"})
"""The fields of errors. A struct with one of them has the answer in another field."""


class _Types(ExpressionTypes):
    """The types of expressions, for which a JSON is a text, and as declared."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        super().__init__(root, columns_of)
        self.declared = JsonTypes(root, columns_of)


def variants(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `e:response:city` as `e['city']` for the answer of `ai_extract`, and as the value of a JSON text.

    Raises:
        UnsupportedError: the path leads to a value that the answer does not have.
    """
    types = _Types(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, types, tree))


def _written(node: Node, types: _Types, tree: Tree) -> Json:
    if kind(node) == "JsonAccess":
        fields = body(node)
        steps = [_step(one, tree) for one in fields["path"]["path"]]
        return _last(fields["value"], lambda value: _value(value, steps, VARIANT_TEXT, types), tree)
    if kind(node) == "Cast" and body(node)["kind"] == "DoubleColon" and kind(body(node)["expr"]) in _OPERATIONS:
        return _last(body(node)["expr"], lambda value: {"Cast": {**body(node), "expr": value}}, tree)
    if kind(node) != "Function":
        return node
    name, given = function_name(body(node)), arguments(body(node))
    if name in _ONE and len(given) == 1:
        return _of_one(node, name, given[0], types)
    if name == GOT and len(given) == 2:
        return _got(node, given, types)
    if name == FIELD and len(given) == 3:
        return _json_field(given, types)
    if name == FLATTENED and (text := _as_json(given[0], types) or _made_list(given[0])) is not None:
        rest = {f"v{place}": value for place, value in enumerate(given[1:])}
        mode = f" || '{OF_TYPED}'" if len(rest) == 4 else ""  # NULL in a typed list stays NULL
        return written(f"{FLATTENED}(v, {', '.join(rest)}{mode})", v=text, **rest)
    if name == "list_count" and len(given) == 1:
        return written("CAST(coalesce(array_length(array_compact(v)), 0) AS BIGINT)", v=given[0])
    if name in {JOINED, MIXED} and given:
        return _joined(given, types) if name == JOINED else _mixed(given, types)
    path = text_of_literal(given[1]) if name in _PATHS and len(given) == 2 else None
    return node if path is None else _value(given[0], list(read_path(path)), name, types)


def _mixed(given: Sequence[Json], types: _Types) -> Json:
    """Return the list of values of one type, or the JSON list of values of several types."""
    named = {f"v{place}": value for place, value in enumerate(given)}
    if are_mixed([types.of(value) for value in given]):
        made = {name: _made_json(value, types, quoted=True) for name, value in named.items()}
        return written(f"{JSON_LIST}(make_array({', '.join(made)}))", **made)
    return written(f"[{', '.join(named)}]", **named)


def _made_list(value: Json) -> Json | None:
    """Return a JSON list that the statement makes, whose null is NULL; None for another value."""
    return value if kind(value) == "Function" and function_name(body(value)) == JSON_LIST else None


def _of_one(node: Node, name: str, value: Json, types: _Types) -> Json:
    """Return the list or the JSON of a value by its type."""
    found = _type_of(value, types)
    if name == COMPACT:
        return _as_json(value, types) or node
    if name == ELEMENTS:
        return value if found is not None and is_list(found) else node
    if name == LISTED:
        return written(f"{ELEMENTS}(v)", v=value) if found == pa.string() else value
    return _made_json(value, types, quoted=name == QUOTED)


def _type_of(value: Json, types: _Types) -> Type:
    """Return the type of a value, also of a field of a struct, such as `answer['categories']`."""
    value = unnested(value)
    found = types.of(value)
    if found is not None or kind(value) != "CompoundFieldAccess":
        return found
    found = types.of(body(value)["root"])
    for step in body(value)["access_chain"]:
        name = text_of_literal(body(body(step))["index"]) if kind(step) == "Subscript" else None
        if name is None or found is None or not pa.types.is_struct(found) or found.get_field_index(name) < 0:
            return None
        found = found.field(found.get_field_index(name)).type
    return found


def _json_field(given: Sequence[Json], types: _Types) -> Json:
    """Return the field of a JSON text, or the field as written for a value of another type.

    Raises:
        UnsupportedError: the field is one that BigQuery's calls return around their answer.
    """
    value, path, as_written = given
    if kind(value) not in {"Function", "Cast"} and types.of(value) != pa.string():
        return as_written
    step = read_path(text_of_literal(path) or "$")[0]
    if step in _AROUND:
        raise UnsupportedError(
            f".{step} of a text does not exist: an answer is the text itself, so leave .{step} out; for a field of a"
            f" JSON text, write JSON_VALUE(text, '$.{step}')"
        )
    return written("nullif(json_extract(v, p), 'null')", v=value, p=path)


def _last(value: Json, change: Callable[[Json], Json], tree: Tree) -> Json:
    """Change the last operand of an operation: the parser reads `a || b:c` as `(a || b):c`."""
    if kind(value) == "BinaryOp":
        return {"BinaryOp": {**body(value), "right": _last(body(value)["right"], change, tree)}}
    if kind(value) == "UnaryOp":
        return {"UnaryOp": {**body(value), "expr": _last(body(value)["expr"], change, tree)}}
    if kind(value) not in _VALUES:
        raise UnsupportedError(f"the path after {tree.position(value)} needs parentheses: write (value:name)")
    return change(value)


def _as_json(value: Json, types: _Types) -> Json | None:
    """Return the JSON text of a list or a struct; None for another value, or a value of an unknown type."""
    found = _type_of(value, types)
    if found is not None and pa.types.is_nested(found):
        return written(json_form("v", found), v=value)
    return written(f"{OF_LIST}(arrow_cast(v, 'List(Utf8)'))", v=value) if _returns_list(value) else None


def _made_json(value: Json, types: _Types, *, quoted: bool) -> Json:
    """Return the JSON of a value; a text is JSON itself, unless it is quoted."""
    made = kind(value) == "Function" and function_name(body(value)) in _OF_JSON
    if made or types.declared.is_json(value):
        return value
    found = types.of(value)
    if (nested := _as_json(value, types)) is not None:
        return nested
    if found is not None and pa.types.is_timestamp(found):  # only Snowflake's functions have these marks
        value = written(f"to_char(v, '%Y-%m-%d %H:%M:%S%.3f{'' if found.tz is None else ' %z'}')", v=value)
        found = pa.string()
    return value if not quoted and found in {None, pa.string()} else written(json_form("v", found), v=value)


def _got(node: Json, given: Sequence[Json], types: _Types) -> Json:
    """Return the element of a list at a computed place from 0; a JSON text keeps its function."""
    found = types.of(given[0])
    if not _returns_list(given[0]) and (found is None or not is_list(found)):
        return node
    return written("CASE WHEN k >= 0 THEN array_element(v, CAST(k AS BIGINT) + 1) END", v=given[0], k=given[1])


def _returns_list(value: Json) -> bool:
    if kind(value) == "Function" and function_name(body(value)) == "coalesce":
        return any(_returns_list(one) for one in arguments(body(value)))
    return kind(value) == "Array" or (kind(value) == "Function" and function_name(body(value)) in _LISTS)


def _joined(given: Sequence[Json], types: _Types) -> Json:
    """Return `concat_ws` with a text for each list; an empty list adds no separator."""
    between, parts, values = given[0], list[str](), dict[str, Json]()
    for place, value in enumerate(given[1:]):
        found = types.of(value)
        listed = _returns_list(value) or (found is not None and is_list(found))
        values[f"v{place}"] = value
        parts.append(f"nullif(array_to_string(v{place}, s), '')" if listed else f"v{place}")
    return written(f"concat_ws(s, {', '.join(parts)})" if parts else "concat_ws(s, '')", s=between, **values)


def _value(value: Json, steps: Sequence[Step], reader: str, types: _Types) -> Json:
    """Return the value at a path by the type of the value before it."""
    if kind(value) == "Function" and function_name(body(value)) in _PATHS:  # `a:b:c` is one path
        inner = arguments(body(value))
        before = text_of_literal(inner[1]) if len(inner) == 2 else None
        if before is not None:
            return _value(inner[0], [*read_path(before), *steps], reader, types)
    found = types.of(value)
    if found is not None and pa.types.is_struct(found):
        return _field(value, list(steps), reader, found)
    if _returns_list(value) or (found is not None and is_list(found)):
        return _element(value, list(steps), reader, found or pa.list_(pa.string()))
    return written(f"{reader}(v, {text_literal(written_path(tuple(steps)))})", v=value)


def _field(value: Json, steps: list[Step], reader: str, type_: Type) -> Json:
    fields = {one.name.lower(): one for one in type_} if type_ is not None else {}
    while steps and str(steps[0]).lower() not in fields and _ERRORS.isdisjoint(fields) and _is_wrapper(steps[0]):
        steps = steps[1:]
    field = fields.get(str(steps[0]).lower()) if steps else None
    if field is not None:
        steps = [field.name, *steps[1:]]
        read = written(f"v[{text_literal(field.name)}]", v=value)
        if len(steps) > 1 and pa.types.is_struct(field.type):
            return _field(read, steps[1:], reader, field.type)
        if len(steps) > 1 and is_list(field.type):
            return _element(read, steps[1:], reader, field.type)
        if len(steps) > 1 and pa.types.is_string(field.type):
            return written(f"{reader}(v, {text_literal(written_path(tuple(steps[1:])))})", v=read)
    text = "v"
    for step in steps:
        text += f"[{text_literal(step)}]" if isinstance(step, str) else f"[{step + 1}]"
    return written(
        f"CAST({text} AS TEXT)" if reader == VARIANT_TEXT and steps and _is_plain(type_, steps) else text, v=value
    )


def _is_wrapper(step: Step) -> bool:
    return step in _OF_STRUCTS or step == 0


def _is_plain(type_: Type, steps: Sequence[Step]) -> bool:
    """Return whether the value at a path is surely no struct or list."""
    for step in steps:
        if type_ is None or not pa.types.is_struct(type_) or not isinstance(step, str):
            return False
        place = type_.get_field_index(step)
        type_ = type_.field(place).type if place >= 0 else None
    return type_ is not None and not pa.types.is_nested(type_)


def _element(value: Json, steps: list[Step], reader: str, type_: pa.DataType) -> Json:
    """Return an element of a list; `labels` before its place is the vendor's way to a list of labels."""
    if steps and steps[0] in {"labels", "response", "value"}:
        steps = steps[1:]
    if not steps:
        return value
    if len(steps) == 1 and isinstance(steps[0], int):
        return written(f"array_element(v, {steps[0] + 1})", v=value)
    if isinstance(steps[0], int) and pa.types.is_struct(type_.value_type):
        return _field(written(f"array_element(v, {steps[0] + 1})", v=value), steps[1:], reader, type_.value_type)
    shown = "".join(f"[{step}]" if isinstance(step, int) else f":{step}" for step in steps)
    raise UnsupportedError(f"{shown} does not exist: the value is a list, so write [0] for its first element")


def _step(part: Json, tree: Tree) -> Step:
    """Return a step of `:a.b[0]['c']`."""
    fields = body(part)
    if kind(part) == "Dot":
        return str(fields["key"])
    literal = body(fields["key"])["value"] if kind(fields["key"]) == "Value" else {}
    if kind(literal) == "Number" and str(body(literal)[0]).isdecimal():
        return int(body(literal)[0])
    if (name := text_of_literal(fields["key"])) is not None:
        return name
    raise UnsupportedError(f"the path at {tree.position(part)} has a computed place: write a number or a name in it")
