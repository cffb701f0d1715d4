"""Write the values of Spark whose meaning depends on a type: numbers of times, times of numbers, items and series."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.errors import UnsupportedError
from flightllm.functions.java_texts import HALF_UP
from flightllm.functions.number_checks import ELEMENT_PLACE, SUBSCRIPT_PLACE
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, is_date

AS_NUMBER, AS_TIME, AS_DIGITS = "__spark_number", "__spark_time", "__spark_digits"
SERIES, ITEM, SUBSCRIPT, ROUNDED = "__spark_series", "__spark_item", "__spark_subscript", "__spark_round"
SIZE, REVERSED = "__spark_size", "__spark_reverse"
TRIED, TRIED_SUM = "__spark_try", "__spark_try_sum"
"""Functions that the generator of other dialects writes."""
CALLS: Final = frozenset(
    {AS_NUMBER, AS_TIME, AS_DIGITS, SERIES, ITEM, SUBSCRIPT, ROUNDED, SIZE, REVERSED, TRIED, TRIED_SUM}
)
"""The functions that the pass rewrites."""
_MICROS: Final = "CAST(CAST(v AS TIMESTAMP(6)) AS BIGINT)"
_SECONDS: Final = f"CAST(floor({_MICROS} / 1000000.0) AS BIGINT)"
_FRACTION: Final = f"({_MICROS} / CAST(1000000 AS DOUBLE))"
_SERIES: Final = {
    2: "generate_series(a, b, CASE WHEN a <= b THEN 1 ELSE -1 END)",
    3: "generate_series(a, b, c)",
}
_CHECKED: Final = (
    "array_element(v, {}(CAST(k AS BIGINT), CASE WHEN v IS NOT NULL THEN coalesce(CAST(array_length(v) AS BIGINT), 0)"
    " END))"
)
_LISTS: Final = frozenset(
    {
        *("array_agg", "array_concat", "array_distinct", "array_except", "array_filter", "array_intersect"),
        *("array_reverse", "array_slice", "array_sort", "array_transform", "array_union", "flatten", "make_array"),
        *("map_entries", "map_keys", "map_values"),
    }
)
"""Functions whose value is a list of any type."""
_WIDEST: Final = "CAST({} AS DECIMAL(19, 0))"
_SUM: Final = body(written("sum(v)"))["name"]
_DAYS: Final = "generate_series(a, b, CASE WHEN a <= b THEN INTERVAL '1 day' ELSE INTERVAL '-1 day' END)"


def spark_values(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `__spark_number(time, 'whole')` as the seconds since 1970; other values stay.

    `__spark_time(number)` is the time so many seconds after 1970. `__spark_series(a, b)` counts down if `b` is less.
    `__spark_item(map, key)` is a value of a map, and `__spark_item(list, place)` an item of a list;
    `__spark_subscript` counts the items from 0. `__spark_try(a, b, '+')` and `__spark_try_sum(a)` are NULL where a
    whole number would not fit. `__spark_size` counts the items of a list or a map. `__spark_reverse` turns a list or a
    text around.
    A place outside of a list is an error, but NULL with a third argument.
    """
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, types))


def _written(node: Node, types: ExpressionTypes) -> Json:
    name = function_name(body(node)) if kind(node) == "Function" else ""
    if name not in CALLS:
        return node
    given = arguments(body(node))
    found = types.of(given[0])
    if name == TRIED:
        return _tried(given, types)
    if name == TRIED_SUM:
        return _sum_tried(body(node), given[0], found)
    if name == AS_NUMBER:
        if found is None or not pa.types.is_timestamp(found):
            return given[0]
        whole = kind(given[1]) == "Value" and "whole" in str(body(given[1]))
        return written(_SECONDS if whole else _FRACTION, v=given[0])
    if name == AS_TIME:
        return written(_time(found), v=given[0])
    if name == AS_DIGITS:
        return written(_digits(pa.binary() if _is_bytes(given[0]) else found), v=given[0])
    if name == SERIES:
        text = _DAYS if is_date(found) and len(given) == 2 else _SERIES[len(given)]
        return written(text, **dict(zip("abc", given, strict=False)))
    if name == ROUNDED:
        real = found is not None and pa.types.is_floating(found)
        return written(f"{HALF_UP}(CAST(v AS DOUBLE), n)" if real else "round(v, n)", v=given[0], n=given[1])
    return _item(name, given, found)


def _is_map(value: Json, found: Type) -> bool:
    """Return whether a value is a map; one that the generator writes as a CASE has no known type."""
    if found is not None:
        return bool(pa.types.is_map(found))
    value = _inner(value)
    if kind(value) == "Case" and body(value)["conditions"]:
        return _is_map(body(value)["conditions"][0]["result"], None)
    return kind(value) == "Function" and function_name(body(value)) == "map"


def _reversed(value: Json, found: Type) -> str:
    if _makes_list(value) if found is None else is_list(found):
        return "array_reverse(v)"
    # A list is an error for substr, but reverse would turn its text around.
    return "reverse(v)" if found is not None else "reverse(substr(v, 1))"


def _makes_list(value: Json) -> bool:
    """Return whether a value of an unknown type is surely a list, by the name of its function."""
    value = _inner(value)
    if kind(value) == "Case" and body(value)["conditions"]:
        results = [one["result"] for one in body(value)["conditions"]]
        return any(map(_makes_list, [*results, body(value)["else_result"] or {}]))
    return kind(value) == "Function" and function_name(body(value)) in _LISTS


def _item(name: str, given: Sequence[Json], found: Type) -> Json:
    """Return the call that reads an item of a list or a map, counts the items, or turns them around."""
    if name == REVERSED:
        return written(_reversed(given[0], found), v=given[0])
    is_map = _is_map(given[0], found)
    if name == SIZE:
        return written(f"CAST(array_length({'map_keys(v)' if is_map else 'v'}) AS BIGINT)", v=given[0])
    if is_map:
        return written("array_element(map_extract(v, k), 1)", v=given[0], k=given[1])
    if len(given) > 2:
        return written("array_element(v, k)", v=given[0], k=given[1])
    form = _CHECKED.format(SUBSCRIPT_PLACE if name == SUBSCRIPT else ELEMENT_PLACE)
    return written(form, v=given[0], k=given[1])


def _tried(given: Sequence[Json], types: ExpressionTypes) -> Json:
    """Return a sum, difference or product that is NULL if it does not fit the wider type of two whole numbers."""
    sign = str(body(body(given[2])["value"]))
    wides = [_bits(one, types.of(one)) for one in given[:2]]
    if is_date(types.of(given[0])) and wides[1] is None:
        raise UnsupportedError(f"TRY_… of a date and an interval has no counterpart: write a {sign} b")
    if None in wides:
        if any(found is None or pa.types.is_string(found) for found in map(types.of, given[:2])):
            raise UnsupportedError(f"a part of TRY_… has no known type: write try_cast(a AS DOUBLE) {sign} b")
        return written(f"(a {sign} b)", a=given[0], b=given[1])
    wide = max(one for one in wides if one is not None)
    if wide < 32:
        raise UnsupportedError(
            f"TRY_… of TINYINT or SMALLINT has no counterpart: write try_cast(INT(a) {sign} b AS TINYINT)"
        )
    exact = f"({_WIDEST.format('a')} {sign} {_WIDEST.format('b')})"
    return written(f"TRY_CAST({exact} AS {'INT' if wide == 32 else 'BIGINT'})", a=given[0], b=given[1])


def _bits(node: Json, found: Type) -> int | None:
    """Return the width of a whole number, or None; Spark reads a literal as INT where it fits."""
    if found is None or not pa.types.is_signed_integer(found):
        return None
    most = 2**31 if "Minus" in str(node) else 2**31 - 1
    node = _inner(node)
    number = (
        str(body(body(node)["value"])[0]) if kind(node) == "Value" and kind(body(node)["value"]) == "Number" else ""
    )
    return 32 if number.isdecimal() and int(number) <= most else int(found.bit_width)


def _inner(node: Json) -> Json:
    """Return a part without parentheses and signs."""
    while kind(node) in {"Nested", "UnaryOp"}:
        node = body(node) if kind(node) == "Nested" else body(node)["expr"]
    return node


def _sum_tried(fields: Node, value: Json, found: Type) -> Json:
    """Return a sum that is NULL if it does not fit BIGINT, with the call's DISTINCT, FILTER and OVER."""
    if found is None or not pa.types.is_integer(found):
        return {"Function": {**fields, "name": _SUM}}
    wide = {"Unnamed": {"Expr": written("CAST(v AS DECIMAL(38, 0))", v=value)}}
    args = {"List": {**body(fields["args"]), "args": [wide]}}
    return written("TRY_CAST(s AS BIGINT)", s={"Function": {**fields, "name": _SUM, "args": args}})


def _is_bytes(value: Json) -> bool:
    """Return whether a value is a literal of bytes, or of a function that makes bytes."""
    made = _inner(value)
    return kind(made) == "Function" and function_name(body(made)) in {"decode", "arrow_cast"}


def _digits(found: Type) -> str:
    if found is not None and pa.types.is_integer(found):
        return "upper(to_hex(CAST(v AS BIGINT)))"
    if found is not None and (pa.types.is_string(found) or pa.types.is_binary(found)):
        return "upper(encode(v, 'hex'))"
    raise UnsupportedError(
        "HEX of a value of this type has no counterpart here: write hex(CAST(x AS BIGINT)) or hex(CAST(x AS STRING))"
    )


def _time(found: Type) -> str:
    if found is not None and pa.types.is_integer(found):
        return "to_timestamp_seconds(v)"
    if found is not None and (pa.types.is_floating(found) or pa.types.is_decimal(found)):
        return "to_timestamp_micros(CAST(floor(CAST(v AS DOUBLE) * 1000000) AS BIGINT))"
    return "v"
