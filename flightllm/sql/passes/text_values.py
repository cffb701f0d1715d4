"""Write values as PostgreSQL does: DataFusion writes a timestamp as `2024-01-05T08:00:00`, and an array as `[1, 2]`."""

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Final

import pyarrow as pa

from flightllm.errors import UnsupportedError
from flightllm.functions.value_texts import ARRAY_TEXT, DOUBLE_TEXT, INTERVAL_TEXT, REAL_TEXT
from flightllm.sql.model_calls import asks_model
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, arguments, cast_type, function_name

_TEXT_TYPES: Final = frozenset({"text", "varchar", "char", "character", "string", "nvarchar"})
_JOINING: Final = frozenset({"concat", "concat_ws"})
_TEMPLATE: Final = "prompt"
"""The function that makes a prompt of a text and values."""
_KEPT: Final = "kept"
"""The field that marks a join of texts and values in a prompt."""
_UTC: Final = frozenset({"UTC", "+00:00", "Z"})
_DECIMAL: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_BARE: Final = ({"Numeric": "None"}, {"Decimal": "None"}, {"Dec": "None"})
"""The types of numerics without digits."""
_SHORT: Final = r"regexp_replace({}, '(\.\d*?)0+$', '\1')"
"""A time without zeros at the end of its fraction."""
_TRIMMED: Final = r"regexp_replace(CAST(v AS VARCHAR), '\.?0+$', '')"
"""A decimal without zeros at the end of its fraction."""
_CLOCK: Final = _SHORT.format("CAST(v AS VARCHAR)")
_PLAIN: Final = _SHORT.format("replace(CAST(v AS VARCHAR), 'T', ' ')")
_ZONED: Final = r"regexp_replace(replace(CAST(v AS VARCHAR), 'T', ' '), '(?:(\.\d*?)0*)?Z$', '\1+00')"


def has_text_of_value(text: ParsedText) -> bool:
    """Return whether a text can make a text of a value: by a cast, by `||`, or by `concat`."""
    return "||" in text.marks or not (_TEXT_TYPES | _JOINING).isdisjoint(text.words)


def text_values(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `opened::text` so that it writes PostgreSQL's text; also an operand of `||`, and arguments of `concat`.

    `flightllm.functions.value_texts` writes doubles, intervals and arrays of texts. A prompt that is joined from texts
    and values stays: its values are fields with names and types.

    Raises:
        UnsupportedError: an array has elements whose texts would differ.
    """
    own = own_functions(columns_of)
    marked = tree.rebuilt(lambda node: _marked(node, own))
    writer = _Writer(marked, ExpressionTypes(marked.root, columns_of))
    changed = marked.rebuilt(writer.changed)
    return tree if changed is marked else changed


def _marked(node: Node, own_functions: Collection[str]) -> Json:
    """Return a call of a model with a mark at each join of its prompts; the printer takes no notice of it."""
    fields = body(node)
    name = function_name(fields) if kind(node) == "Function" else ""
    is_prompt = name == _TEMPLATE or asks_model(name, own_functions)
    return {"Function": _marked_arguments(fields)} if is_prompt else node


def _marked_arguments(function: Json) -> Json:
    given = function["args"]
    if kind(given) != "List":
        return function
    return {**function, "args": {"List": {**body(given), "args": [*map(_marked_argument, body(given)["args"])]}}}


def _marked_argument(argument: Node) -> Node:
    name, fields = kind(argument), body(argument)
    given = fields["arg"] if name == "Named" else fields
    if kind(given) != "Expr":
        return argument
    marked = {"Expr": _marked_join(body(given))}
    return {name: {**fields, "arg": marked} if name == "Named" else marked}


def _marked_join(value: Json) -> Json:
    name, fields = kind(value), body(value)
    if name == "Nested":
        return {name: _marked_join(fields)}
    if name == "BinaryOp" and fields["op"] == "StringConcat":
        left, right = _marked_join(fields["left"]), _marked_join(fields["right"])
        return {name: {**fields, "left": left, "right": right, _KEPT: True}}
    if name == "Function" and function_name(fields) in _JOINING:
        return {name: {**_marked_arguments(fields), _KEPT: True}}
    return value


class _Writer:
    """Writes the texts of the values of one statement."""

    def __init__(self, tree: Tree, types: ExpressionTypes) -> None:
        self._tree = tree
        self._types = types

    def changed(self, node: Node) -> Json:
        """Return a node whose value is written as PostgreSQL does; the same object if it makes no text of a value."""
        name, fields = kind(node), body(node)
        if isinstance(fields, dict) and _KEPT in fields:
            return node
        if name == "Cast" and cast_type(fields["data_type"]) == pa.string():
            value = self._text(fields["expr"])
            return node if value is fields["expr"] else {name: {**fields, "expr": value}}
        if name == "BinaryOp" and fields["op"] == "StringConcat":
            return self._concatenated(node)
        if name == "Function" and function_name(fields) in _JOINING:
            return self._joined(node)
        return node

    def _concatenated(self, node: Node) -> Json:
        fields = body(node)
        sides = {side: fields[side] for side in ("left", "right")}
        types = {side: self._types.of(value) for side, value in sides.items()}
        if pa.string() not in types.values() or any(one is None or pa.types.is_list(one) for one in types.values()):
            return node
        after = {side: self._text(value) for side, value in sides.items()}
        same = all(after[side] is value for side, value in sides.items())
        return node if same else {"BinaryOp": {**fields, **after}}

    def _joined(self, node: Node) -> Json:
        fields = body(node)
        given = arguments(fields)
        listed = body(fields["args"])
        if len(given) != len(listed["args"]):
            return node
        after = [self._argument(value) for value in given]
        if all(new is old for new, old in zip(after, given, strict=True)):
            return node
        return {"Function": {**fields, "args": {"List": {**listed, "args": [{"Unnamed": {"Expr": v}} for v in after]}}}}

    def _argument(self, value: Json) -> Json:
        if self._types.of(value) == pa.bool_():
            return written("CASE v WHEN true THEN 't' WHEN false THEN 'f' END", v=value)
        return self._text(value)

    def _text(self, value: Json) -> Json:
        """Return the text of a value; the same object if DataFusion's text is right or the type is unknown."""
        value = self._numeric(value)
        given = self._types.of(value)
        literal = decimal_literal(value)
        if literal is not None:
            return {"Value": {"value": {"SingleQuotedString": literal}, SPAN: NOWHERE}}
        if given is None:
            return value
        if pa.types.is_list(given):
            return self._array(value, given.value_type)
        if given == INTERVAL or pa.types.is_duration(given):
            between = "false" if given == INTERVAL else "true"
            return written(f"{INTERVAL_TEXT}(CAST(v AS INTERVAL), {between})", v=value)
        if pa.types.is_timestamp(given) and given.tz not in {None, *_UTC}:
            return written(_ZONED, v=written("v AT TIME ZONE 'UTC'", v=value))
        form = _form(given)
        return value if form is None else written(form, v=value)

    def _numeric(self, value: Json) -> Json:
        """Return the value inside a cast to a numeric without digits, which keeps those of its value."""
        inner = unnested(value)
        if kind(inner) != "Cast" or body(inner)["data_type"] not in _BARE:
            return value
        number, given = body(inner)["expr"], self._types.of(body(inner)["expr"])
        if kind(number) == "Value" and kind(body(number)["value"]) == "SingleQuotedString":
            digits = str(body(body(number)["value"])).strip()
            literal = {"Value": {"value": {"Number": (digits, False)}, SPAN: NOWHERE}}
            return literal if decimal_literal(literal) is not None else value
        if given is not None and pa.types.is_floating(given):
            return written(_TRIMMED, v=value)
        is_exact = given is not None and (pa.types.is_integer(given) or pa.types.is_decimal(given))
        return number if is_exact else value

    def _array(self, value: Json, element: pa.DataType) -> Json:
        if pa.types.is_integer(element) or pa.types.is_null(element):
            return written("'{' || array_to_string(v, ',', 'NULL') || '}'", v=value)
        if pa.types.is_string(element) or pa.types.is_large_string(element):
            return written(f"{ARRAY_TEXT}(v)", v=value)
        raise UnsupportedError(
            f"the array at {self._tree.position(value)} has elements of another type than whole numbers or text, so"
            " its text would differ from PostgreSQL's: write array_to_string(…, ',')"
        )


def _form(given: pa.DataType) -> str | None:
    """Return the expression that writes a value `v` of a type; None if DataFusion's own text is right."""
    if pa.types.is_timestamp(given):
        return _PLAIN if given.tz is None else _ZONED
    if pa.types.is_time(given):
        return _CLOCK
    if pa.types.is_float64(given):
        return f"{DOUBLE_TEXT}(v)"
    if pa.types.is_float32(given):
        return f"{REAL_TEXT}(v)"
    return r"'\x' || encode(v, 'hex')" if pa.types.is_binary(given) else None


def decimal_literal(value: Json) -> str | None:
    """Return the digits of a literal such as `-1.10` or `1e3`: in PostgreSQL the text keeps its zeros."""
    inner = unnested(value)
    if kind(inner) == "UnaryOp" and body(inner)["op"] == "Minus":
        digits = decimal_literal(body(inner)["expr"])
        return None if digits is None else _negative(digits)
    if kind(inner) != "Value" or kind(body(inner)["value"]) != "Number":
        return None
    digits = str(body(body(inner)["value"])[0])
    return format(Decimal(digits), "f") if _DECIMAL.fullmatch(digits) else None


def _negative(digits: str) -> str:
    """Return a number with the other sign; a zero has no sign."""
    return digits[1:] if digits.startswith("-") else digits if not Decimal(digits) else f"-{digits}"
