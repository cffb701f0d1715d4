"""Let `substr` take small whole numbers: DataFusion's takes only those of 32 and 64 bits."""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes

SUBSTRINGS: Final = frozenset({"substr", "substring"})
"""The functions that the pass rewrites; the parser reads both as one node."""
_PLACES: Final = ("substring_from", "substring_for")
_SMALL: Final = frozenset({pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32()})


def substring_places(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `substr(t, n)` as `substr(t, n + 0)` for a small or unknown `n`.

    The sum has at least 64 bits. A fraction and a text stay what they are, so DataFusion refuses them as before.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def widened(value: Json) -> Json:
        if value is None or ((given := types.of(value)) is not None and given not in _SMALL):
            return value
        return written("(n) + 0", n=value)

    def change(node: Node) -> Json:
        if kind(node) != "Substring":
            return node
        fields = body(node)
        places = {name: widened(fields[name]) for name in _PLACES}
        same = all(places[name] is fields[name] for name in _PLACES)
        return node if same else {"Substring": {**fields, **places}}

    return tree.rebuilt(change)
