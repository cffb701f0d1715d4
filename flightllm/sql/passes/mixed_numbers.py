"""Make decimals beside doubles doubles, as PostgreSQL does: DataFusion makes decimals with 15 digits of both."""

from collections.abc import Sequence
from operator import is_
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.passes.exact_numbers import is_inexact
from flightllm.sql.passes.mixed_times import WORDS as MIXING
from flightllm.sql.passes.mixed_times import Meeting, together
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"})
WORDS: Final = MIXING | {"=", "<", ">", "<=", ">=", "<>", "!=", "in", "between", "distinct", "nullif"}
"""The words and marks of which a text must have one for numbers of two types to meet."""


def mixed_numbers(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `coalesce(price, est)` of a decimal and a double as `coalesce(CAST(price AS DOUBLE), est)`.

    Also CASE, UNION, IN, BETWEEN and comparisons.
    """
    types = ExpressionTypes(tree.root, columns_of)
    meeting = Meeting(types, _meet, _is_decimal, _double, _has_literal)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "BinaryOp" and fields["op"] in _COMPARISONS:
            return _keys(node, ("left", "right"), meeting)
        if name == "Between":
            return _keys(node, ("expr", "low", "high"), meeting)
        if name == "InList":
            given = [fields["expr"], *fields["list"]]
            after = meeting.alike(given)
            return node if after is given else {name: {**fields, "expr": after[0], "list": list(after[1:])}}
        if name in {"IsDistinctFrom", "IsNotDistinctFrom"}:
            after = meeting.alike(fields)
            return node if after is fields else {name: list(after)}
        if name == "Function" and function_name(fields) == "nullif":
            return node if meeting.alike(given := arguments(fields)) is given else _nullif(given)
        return together(node, meeting)

    return tree.rebuilt(change)


def _keys(node: Node, keys: Sequence[str], meeting: Meeting) -> Json:
    fields = body(node)
    given = [fields[key] for key in keys]
    after = meeting.alike(given)
    if all(map(is_, after, given)):
        return node
    return {kind(node): {**fields, **dict(zip(keys, after, strict=True))}}


def _nullif(given: Sequence[Json]) -> Json:
    """Return `nullif` of a decimal and a double: the first value keeps its type."""
    return written("CASE WHEN CAST(a AS DOUBLE) = CAST(b AS DOUBLE) THEN NULL ELSE a END", a=given[0], b=given[1])


def _meet(given: Sequence[Type]) -> bool:
    return any(map(_is_decimal, given)) and any(one is not None and pa.types.is_floating(one) for one in given)


def _is_decimal(given: Type) -> bool:
    return given is not None and bool(pa.types.is_decimal(given))


def _has_literal(value: Json) -> bool:
    """Return whether a value has a literal with a point, which is a decimal in PostgreSQL and a double here."""
    return kind(unnested(value)) != "Cast" and any(map(is_inexact, walk(value)))


def _double(value: Json) -> Json:
    return written("CAST(v AS DOUBLE)", v=value)
