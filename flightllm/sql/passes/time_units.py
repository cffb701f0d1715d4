"""Write the functions over times of other dialects, whose results have the type of their argument."""

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from flightllm.common.names import ADD_UNITS, AS_TIMESTAMP, TRUNCATE_UNIT, VALUE_TEXT
from flightllm.errors import UnsupportedError
from flightllm.functions.json_scalars import JSON_SCALAR
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

UNITS: Final = frozenset({ADD_UNITS, TRUNCATE_UNIT, VALUE_TEXT, AS_TIMESTAMP})
"""The functions that the pass rewrites; only the generator of other dialects writes them."""
_LENGTHS: Final = {"week": ("7 day", 7), "quarter": ("3 month", 3), "day": ("1 day", 1)}
_OF_DAYS: Final = frozenset({"day", "week"})
_OF_DATES: Final = _OF_DAYS | {"month", "quarter", "year"}


def time_units(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `__add_units('month', n, day)` as `CAST(day + n * INTERVAL '1 month' AS DATE)` for a date.

    A text is read as a timestamp. `__truncate_unit('month', day)` is `date_trunc` with the type of its argument.
    `__as_timestamp(value)` reads a whole number as seconds since 1970.
    `__value_text(value, dialect)` is the text of a value as the dialect writes it.
    """
    own = own_functions(columns_of)
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, types, own))


def _written(node: Node, types: ExpressionTypes, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in UNITS:
        return node
    given = arguments(fields)
    if name == VALUE_TEXT:
        return _text(given, types.of(given[0]), own)
    if name == AS_TIMESTAMP:
        found = types.of(given[0])
        whole = found is not None and pa.types.is_integer(found)
        return written("CAST(to_timestamp_seconds(t) AS TIMESTAMP)" if whole else "CAST(t AS TIMESTAMP)", t=given[0])
    unit, time = _literal(given[0]), given[1 if name == TRUNCATE_UNIT else 2]
    found = types.of(time)
    day = found is not None and pa.types.is_date(found) and unit in _OF_DATES
    if found is not None and pa.types.is_string(found):
        time = written("CAST(t AS TIMESTAMP)", t=time)
    if name == TRUNCATE_UNIT:
        text = f"date_trunc('{unit}', t)"
        return written(f"CAST({text} AS DATE)" if day else text, t=time)
    return _added(given[1], time, unit, day=day)


def _added(count: Json, time: Json, unit: str, *, day: bool) -> Json:
    length, days = _LENGTHS.get(unit, (f"1 {unit}", 1))
    if day and unit in _OF_DAYS:
        return written(f"(t + CAST(n AS BIGINT) * {days})" if days > 1 else "(t + CAST(n AS BIGINT))", t=time, n=count)
    text = f"(t + CAST(n AS BIGINT) * INTERVAL '{length}')"
    if (whole := _whole(count)) is not None:
        amount, name = length.split()
        text = f"(t + INTERVAL '{whole * int(amount)} {name}')"
    return written(f"CAST({text} AS DATE)" if day else text, t=time, n=count)


def _text(given: list[Json], found: Type, own: Collection[str]) -> Json:
    value, dialect = given[0], _literal(given[1])
    if dialect == "bigquery" and found == pa.string():  # STRING of BigQuery takes no text: the value is JSON
        return written(f"{JSON_SCALAR}(v, 'STRING', 'strict')", v=value)
    if found is None or not (pa.types.is_floating(found) or pa.types.is_timestamp(found) or pa.types.is_list(found)):
        return written("CAST(v AS VARCHAR)", v=value)
    if changes_per_call([value], own):
        raise UnsupportedError("the text of this value would compute it twice: compute it in a subquery")
    if pa.types.is_timestamp(found):
        form = _TIMES.get(dialect)
        return written(f"to_char(v, '{form}')" if form else "CAST(v AS VARCHAR)", v=value)
    if pa.types.is_floating(found) and dialect in _WITH_POINT:
        return written(
            "CASE WHEN v = trunc(v) AND abs(v) < 1e7 THEN CAST(v AS VARCHAR) || '.0' ELSE CAST(v AS VARCHAR) END",
            v=value,
        )
    return written("CAST(v AS VARCHAR)", v=value)


_TIMES: Final = {"snowflake": "%Y-%m-%d %H:%M:%S%.3f"}
"""The form of a timestamp's text."""
_WITH_POINT: Final = ("databricks", "spark", "duckdb")
"""Dialects that write 1.0 for a whole number of the type DOUBLE."""


def _literal(given: Json) -> str:
    literal = body(given)["value"] if kind(given) == "Value" else {}
    return str(body(literal)).lower() if kind(literal) == "SingleQuotedString" else ""


def _whole(given: Json) -> int | None:
    """Return a count that the text has as a number, with its sign."""
    sign = 1
    while kind(given) in {"UnaryOp", "Nested"}:
        if kind(given) == "UnaryOp":
            if body(given)["op"] != "Minus":
                return None
            sign, given = -sign, body(given)["expr"]
        else:
            given = body(given)
    literal = body(given)["value"] if kind(given) == "Value" else {}
    if kind(literal) != "Number":
        return None
    text = str(body(literal)[0])
    return sign * int(text) if text.isdecimal() else None
