"""Write functions of PostgreSQL that DataFusion lacks, or reads in another way, by its functions."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

from flightllm.errors import UnsupportedError
from flightllm.functions.interval_parts import JUSTIFIED
from flightllm.functions.interval_times import INTERVAL_TIMES
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, kind, text_of_literal, unnested
from flightllm.sql.passes.exact_numbers import decimal_of
from flightllm.sql.query_columns import TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, arguments, function_name

# The printer of the parser reads two quotes in a literal as one that is escaped already; `chr(39)` is a quote.
_QUOTED: Final = (
    r"CASE WHEN strpos(CAST(a AS VARCHAR), '\') > 0"
    r" THEN 'E' || chr(39) || replace(replace(CAST(a AS VARCHAR), chr(39), chr(39) || chr(39)), '\', '\\') || chr(39)"
    r" ELSE chr(39) || replace(CAST(a AS VARCHAR), chr(39), chr(39) || chr(39)) || chr(39) END"
)
_BUCKET: Final = (
    "CASE WHEN b > c THEN CASE WHEN a > b THEN 0 WHEN a <= c THEN d + 1"
    " ELSE CAST(floor(CAST(b - a AS DOUBLE) * d / CAST(b - c AS DOUBLE)) AS BIGINT) + 1 END"
    " WHEN a < b THEN 0 WHEN a >= c THEN d + 1"
    " ELSE CAST(floor(CAST(a - b AS DOUBLE) * d / CAST(c - b AS DOUBLE)) AS BIGINT) + 1 END"
)
_FORMS: Final[Mapping[tuple[str, int], str]] = {
    ("div", 2): "trunc(a / b)",
    ("gen_random_uuid", 0): "uuid()",
    ("chr", 1): "chr(CASE WHEN a = 0 THEN -1 ELSE a END)",  # DataFusion refuses the character -1, and takes 0
    ("clock_timestamp", 0): "now()",
    ("statement_timestamp", 0): "now()",
    ("transaction_timestamp", 0): "now()",
    ("quote_literal", 1): _QUOTED,
    ("quote_nullable", 1): f"coalesce({_QUOTED}, 'NULL')",
    ("width_bucket", 4): _BUCKET,
    ("isfinite", 1): "CASE WHEN a IS NOT NULL THEN true END",
    ("trim_array", 2): "array_slice(a, 1, CAST(array_length(a) AS BIGINT) - CAST(b AS BIGINT))",
    ("array_upper", 2): "CAST(array_length(a, b) AS BIGINT)",
    ("array_lower", 2): "CASE WHEN array_length(a, b) > 0 THEN 1 END",
    ("justify_hours", 1): f"{JUSTIFIED}(a, 'hours')",
    ("justify_days", 1): f"{JUSTIFIED}(a, 'days')",
    ("justify_interval", 1): f"{JUSTIFIED}(a, 'interval')",
    ("sind", 1): "sin(radians(a))",
    ("cosd", 1): "cos(radians(a))",
}
"""Functions by name and number of arguments, which are `a`, `b`, `c` and `d`."""
_AGGREGATES: Final = frozenset({"every"})
_TO_ZERO: Final = {"ceil": "-1", "ceiling": "-1", "trunc": "-1", "round": "-0.5"}
"""Functions that make 0 of a negative literal above a number; DataFusion's zero has a sign there."""
_COUNTED: Final = {"num_nulls": "NULL", "num_nonnulls": "NOT NULL"}
_PARTS: Final = ("years", "months", "weeks", "days", "hours", "mins", "secs")
_INTERVAL: Final = (
    f"{INTERVAL_TIMES}(INTERVAL '1 month', years * 12 + months, 1)"
    f" + {INTERVAL_TIMES}(INTERVAL '1 day', weeks * 7 + days, 1)"
    f" + {INTERVAL_TIMES}(INTERVAL '1 second', hours * 3600 + mins * 60 + secs, 1)"
)
_INTEGERS: Final = 2**31
_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_BLANK_TYPES: Final = frozenset({"Char", "Character"})
CALLS: Final = frozenset(
    {name for name, _ in _FORMS}
    | {"to_hex", "array_dims", "array_fill", "make_interval", "to_char", "char", "character"}
    | _AGGREGATES
    | _TO_ZERO.keys()
    | _COUNTED.keys()
)
"""Words of a text that the pass can change."""


def postgres_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `div(a, b)` as `trunc(a / b)`, and `to_hex(-1)` as the digits of four bytes.

    Raises:
        UnsupportedError: a value calls a model and would be computed twice, or a call has no counterpart.
    """
    own = own_functions(columns_of)
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, own, types))


def _written(node: Node, own: Collection[str], types: ExpressionTypes) -> Json:
    if kind(node) == "BinaryOp":
        return _without_blanks(node)
    fields = body(node)
    if kind(node) == "Ceil":  # a node of its own
        return written("CAST(0 AS DOUBLE)") if _becomes_zero("ceil", fields["expr"]) else node
    name = function_name(fields) if kind(node) == "Function" else ""
    if name not in CALLS or name in own:
        return node
    if name in _AGGREGATES:
        return {"Function": {**fields, "name": body(written("bool_and(v)"))["name"]}}
    if name == "make_interval":
        return _made_interval(fields)
    given = arguments(fields)
    text = _form(name, given, types)
    if text is None:
        return node
    if changes_per_call(given, own):
        raise UnsupportedError(f"{name} would compute its values twice: compute them in a subquery")
    return {"Nested": written(text, **dict(zip("abcdefgh", given, strict=False)))}


def _form(name: str, given: Sequence[Json], types: ExpressionTypes) -> str | None:
    if name in _COUNTED and 0 < len(given) <= len("abcdefgh"):
        cases = (f"CASE WHEN {one} IS {_COUNTED[name]} THEN 1 ELSE 0 END" for one in "abcdefgh"[: len(given)])
        return " + ".join(cases)
    if name in _TO_ZERO and len(given) == 1:
        return "CAST(0 AS DOUBLE)" if _becomes_zero(name, given[0]) else None
    if name == "to_hex" and len(given) == 1:
        return "right(to_hex(a), 8)" if _is_integer(given[0], types.of(given[0])) else None
    if name == "to_char" and given and types.of(given[0]) in (INTERVAL, BETWEEN_TIMES):
        raise UnsupportedError(
            "to_char of an interval has no counterpart here: write extract(hour FROM x), or CAST(x AS VARCHAR)"
        )
    if name == "array_dims" and len(given) == 1:
        return _dimensions(types.of(given[0]))
    if name == "array_fill":
        return _filled(given)
    return _FORMS.get((name, len(given)))


def _becomes_zero(name: str, value: Json) -> bool:
    """Return whether a function makes 0 of a negative literal, which is a numeric in PostgreSQL."""
    number = decimal_of(value)
    return number is not None and Decimal(_TO_ZERO[name]) < number < 0


def _is_integer(value: Json, found: Type) -> bool:
    """Return whether a value has four bytes in PostgreSQL, as a literal near 0 has."""
    if found is None or not pa.types.is_integer(found):
        return False
    digits = text_of(value).strip("()- ")
    return found.bit_width <= pa.int32().bit_width or (digits.isdecimal() and int(digits) <= _INTEGERS)


def _dimensions(found: Type) -> str:
    """Return `'[1:2][1:3]'` for a list of two lists with three elements."""
    parts: list[str] = []
    while found is not None and pa.types.is_list(found):
        parts.append(f"'[1:' || array_length(a, {len(parts) + 1}) || ']'")
        found = found.value_type
    if not parts:
        raise UnsupportedError("array_dims of a value of unknown type has no counterpart: write array_length(list, 1)")
    return " || ".join(parts)


def _filled(given: Sequence[Json]) -> str:
    sizes = body(given[1])["elem"] if len(given) == 2 and kind(given[1]) == "Array" else []
    if len(sizes) != 1:
        raise UnsupportedError("array_fill makes lists of one dimension here: write array_fill(value, ARRAY[3])")
    return f"array_repeat(a, {text_of(sizes[0])})"


def _made_interval(fields: Json) -> Json:
    """Return the sum of months, days and seconds that `make_interval(days => 10, hours => 2)` means."""
    listed = body(fields["args"])["args"] if kind(fields["args"]) == "List" else []
    if len(listed) > len(_PARTS):
        raise UnsupportedError("make_interval has seven parts: write make_interval(days => 10, hours => 2)")
    given = {part: written("0") for part in _PARTS}
    for place, one in enumerate(listed):
        part = _PARTS[place] if kind(one) == "Unnamed" else _name(body(one))
        if part not in given:
            raise UnsupportedError(f"make_interval has no part {part}: write one of {', '.join(_PARTS)}")
        value = body(one) if kind(one) == "Unnamed" else body(one)["arg"]
        given[part] = {"Nested": body(value)}
    return {"Nested": written(_INTERVAL, **given)}


def _name(named: Json) -> str:
    name = named["name"]
    return str(name["value"] if "value" in name else text_of(name)).lower()


def _without_blanks(node: Node) -> Json:
    """Compare a `char(n)` with a literal without the blanks at the literal's end, which do not count."""
    fields = body(node)
    if fields["op"] not in _COMPARISONS:
        return node
    sides = {}
    for side, other in (("left", "right"), ("right", "left")):
        text = text_of_literal(fields[side])
        if text is not None and text.endswith(" ") and _is_blank_padded(fields[other]):
            sides[side] = written(text_literal(text.rstrip(" ")))
    return {"BinaryOp": {**fields, **sides}} if sides else node


def _is_blank_padded(value: Json) -> bool:
    inner = unnested(value)
    return kind(inner) == "Cast" and kind(body(inner)["data_type"]) in _BLANK_TYPES
