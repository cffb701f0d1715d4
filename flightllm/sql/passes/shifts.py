"""Shift the bits of an integer as PostgreSQL does: DataFusion reads a literal as 64 bits, and widens a smallint."""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes

SHIFTS: Final = frozenset({"<<", ">>"})
"""The signs of which a text must have one to shift bits."""
_OPERATORS: Final = {"PGBitwiseShiftLeft": "<<", "PGBitwiseShiftRight": ">>"}
_SHORT: Final = "CAST(((CAST({} AS BIGINT) & 65535) << 48) >> 48 AS SMALLINT)"
"""The lowest 16 bits of an integer, the first of them as its sign."""


def shifts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `7 << n` so that it has 32 bits; the result of a smallint has 16."""
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "BinaryOp" or fields["op"] not in _OPERATORS:
            return node
        given = types.of(fields["left"])
        if given not in {pa.int16(), pa.int32()}:
            return node
        shifted = f"CAST(v AS INT) {_OPERATORS[fields['op']]} CAST(n AS INT)"
        if given == pa.int16():
            shifted = _SHORT.format(shifted)
        return {"Nested": written(shifted, v=fields["left"], n=fields["right"])}

    return tree.rebuilt(change)
