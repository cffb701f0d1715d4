"""Read the texts of times as PostgreSQL does: DataFusion cuts digits, and computes with the zone of a timestamp."""

import re
from typing import Final

import pyarrow as pa

from flightllm.functions.time_texts import TIME_TEXT, TIMESTAMP_TEXT, ZONED_TEXT, plain_time, plain_timestamp
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import TIMESTAMP, ZONED, ExpressionTypes, cast_type

TYPES: Final = frozenset({"time", "timestamp", "timestamptz", "datetime"})
"""The words of which a text must have one to have such a cast."""
_ODD: Final = re.compile(r"\.\d{7}|\s*\d+\s*$|.*[+-]\d\d(?::?\d\d)?\s*$", re.DOTALL)
_TEXT: Final = "SingleQuotedString"
_UNITS: Final = {0: ("second", "500 milliseconds"), 3: ("millisecond", "500 microseconds")}
"""By the digits of a fraction, the unit to which a time is cut, and the half of that unit."""


def has_time_text(text: ParsedText) -> bool:
    """Return whether a text can have a time in an odd form, a cast of another value to a time, or fewer digits."""
    for index, token in enumerate(text.tokens):
        if token.kind is TokenKind.STRING and (_ODD.match(token.text) or ".".join(token.text.split(".")[1:])[6:]):
            return True
        if token.kind is TokenKind.WORD and token.is_word(*TYPES):
            before = text.is_symbol(index - 1, "::") or text.is_word(index - 1, "as")
            if text.is_symbol(index + 1, "(") or (before and text.tokens[index - 2].kind is not TokenKind.STRING):
                return True
    return False


def time_texts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `timestamp '2024-01-01 08:00+02'` without its zone, and `'083000'::time` as `'08:30:00'::time`.

    Seven digits of a fraction are rounded to six, and those of `timestamp(0)` and `timestamp(3)` to as many digits.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "TypedString" and kind(fields["value"]["value"]) == _TEXT:
            text = body(fields["value"]["value"])
            plain = _plain(text, fields["data_type"])
            if plain == text:
                return node
            return {name: {**fields, "value": {"value": {_TEXT: plain}, SPAN: NOWHERE}}}
        if name != "Cast":
            return node
        value = _cast_value(fields, types)
        return node if value is fields["expr"] else {name: {**fields, "expr": value}}

    return tree.rebuilt(change)


def _cast_value(cast: Json, types: ExpressionTypes) -> Json:
    """Return the value of a cast to a time in DataFusion's form; the same object if it is in this form."""
    value, data_type = cast["expr"], cast["data_type"]
    given, target = types.of(value), cast_type(data_type)
    if given is None or target not in {TIMESTAMP, ZONED, pa.time64("ns")}:
        return value
    inner = unnested(value)
    if kind(inner) == "Value" and kind(body(inner)["value"]) == _TEXT:
        text = body(body(inner)["value"])
        plain = _plain(text, data_type)
        return value if plain == text else {"Value": {"value": {_TEXT: plain}, SPAN: NOWHERE}}
    digits = _digits(data_type)
    if pa.types.is_string(given) and digits >= max(_UNITS):
        function = {TIMESTAMP: TIMESTAMP_TEXT, ZONED: ZONED_TEXT}.get(target, TIME_TEXT)
        return written(f"{function}(v)", v=value)
    if pa.types.is_timestamp(given) and digits in _UNITS:
        unit, half = _UNITS[digits]
        return written(f"date_trunc('{unit}', v + INTERVAL '{half}')", v=value)
    return value


def _plain(text: str, data_type: Json) -> str:
    target = cast_type(data_type)
    if target == pa.time64("ns"):
        return plain_time(text)
    if target not in {TIMESTAMP, ZONED}:
        return text
    return plain_timestamp(text, _digits(data_type), zoned=target == ZONED)


def _digits(data_type: Json) -> int:
    """Return the digits of a fraction that a type keeps."""
    given = body(data_type) if kind(data_type) == "Timestamp" else ()
    return int(given[0]) if given and given[0] is not None else 9
