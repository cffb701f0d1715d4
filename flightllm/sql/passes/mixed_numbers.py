"""Make decimals beside doubles doubles, as PostgreSQL does: DataFusion makes decimals with 15 digits of both."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.passes.exact_numbers import is_inexact
from flightllm.sql.passes.mixed_times import WORDS as MIXING
from flightllm.sql.passes.mixed_times import Meeting, together
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

WORDS: Final = MIXING | {"nullif"}
"""The words of which a text must have one for numbers of two types to become one column."""


def mixed_numbers(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `coalesce(price, est)` of a decimal and a double as `coalesce(CAST(price AS DOUBLE), est)`.

    Also CASE and UNION.
    """
    types = ExpressionTypes(tree.root, columns_of)
    meeting = Meeting(types, _meet, _is_decimal, _double, _has_literal)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) == "Function" and function_name(fields) == "nullif":
            return node if meeting.alike(given := arguments(fields)) is given else _nullif(given)
        return together(node, meeting)

    return tree.rebuilt(change)


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
