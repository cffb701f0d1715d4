"""Hide the year of a timestamp from DataFusion, which turns a test of it into a test of nanoseconds.

A timestamp in nanoseconds lies between 1677 and 2262. For other years, DataFusion's test is NULL for all rows.
"""

from collections.abc import Mapping
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, rebuilt, text_of_literal, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.date_parts import NAMES
from flightllm.sql.passes.exact_numbers import decimal_of
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, is_date

YEARS: Final = frozenset({"year", "years", "y", "yr", "yrs"})
"""The words that a text with the year of a time has."""
_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_FIRST, _LAST = 1678, 2261
"""The years of which DataFusion finds both ends."""


def years(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `extract(year FROM t) > 1500` as a test of `CAST(CAST(date_part('year', t) AS DOUBLE) AS INT)`.

    In WHERE, a comparison with a year that nanoseconds reach stays: its test of the column itself skips parts of files.
    The year of a date stays, too.
    """
    types = ExpressionTypes(tree.root, columns_of)
    hidden = dict[int, tuple[Json, Node]]()
    """Each cast of a year by its identity, and the year; it stays alive, so no other object has its identity."""

    def change(node: Node) -> Json:
        if kind(node) == "Select":
            return _with_plain(node, hidden)
        value = _of_year(node)
        if value is None or is_date(types.of(value)):
            return node
        after = written("CAST(CAST(v AS DOUBLE) AS INT)", v=node)
        hidden[id(after)] = after, node
        return after

    return tree.rebuilt(change)


def _with_plain(select: Node, hidden: Mapping[int, tuple[Json, Node]]) -> Node:
    """Return a SELECT in whose WHERE comparisons with near years have the years themselves.

    Elsewhere, and in queries in WHERE, a year must stay equal to that of GROUP BY.
    """

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "BinaryOp" or fields["op"] not in _COMPARISONS:
            return node
        for one, other in (("left", "right"), ("right", "left")):
            known = hidden.get(id(unnested(fields[one])))
            if known is not None and _is_near(fields[other]):
                return {"BinaryOp": {**fields, one: known[1]}}
        return node

    where = body(select)["selection"]
    if where is None or any(kind(one) == "Select" for one in walk(where)):
        return select
    after = rebuilt(where, change)
    return select if after is where else {"Select": {**body(select), "selection": after}}


def has_year(text: ParsedText) -> bool:
    """Return whether a text can take the year of a time."""
    return not NAMES.isdisjoint(text.words) and not YEARS.isdisjoint(text.mentions)


def _of_year(node: Node) -> Json | None:
    """Return the time whose year a node takes, or None."""
    fields = body(node)
    if kind(node) == "Extract":
        field = fields["field"]
        name = field if isinstance(field, str) else str(body(field).get("value", "")) if kind(field) == "Custom" else ""
        return fields["expr"] if name.lower() in YEARS else None
    if kind(node) != "Function" or function_name(fields) not in NAMES or len(given := arguments(fields)) != 2:
        return None
    return given[1] if (text_of_literal(given[0]) or "").lower() in YEARS else None


def _is_near(value: Json) -> bool:
    """Return whether a value is the literal of a year that nanoseconds reach."""
    number = decimal_of(unnested(value))
    return number is not None and _FIRST <= number <= _LAST
