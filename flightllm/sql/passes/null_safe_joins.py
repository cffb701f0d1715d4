"""Keep `IS NOT DISTINCT FROM` of one join from the other joins: DataFusion gives all keys of inner joins one meaning.

A chain of inner joins takes the meaning of NULL from its last join. So `a.g = b.g` matches NULL with NULL if the last
condition is `r.k IS NOT DISTINCT FROM a.g`, and `IS NOT DISTINCT FROM` does not if the last condition has `=`.
"""

from typing import Final

from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT, has_distinct_from
from flightllm.sql.nodes import Json, Node, body, columns, kind, walk
from flightllm.sql.null_safe import null_safe
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes

_TABLES: Final = frozenset({"Table", "Derived", "UNNEST", "TableFunction"})
_FEWEST: Final = 3
"""The tables of the smallest chain that has two joins."""


def has_null_safe(text: ParsedText) -> bool:
    """Return whether a text has `IS [NOT] DISTINCT FROM` or `<=>`."""
    return "<=>" in text.marks or has_distinct_from(text)


def null_safe_joins(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `r.k IS NOT DISTINCT FROM a.g` as `coalesce(r.k, 0) = coalesce(a.g, 0) AND …`, see `null_safe`.

    IS DISTINCT FROM changes, too: DataFusion writes its negation as IS NOT DISTINCT FROM. A statement with fewer than 3
    tables has no chain of joins, and stays.
    """
    tables = (node for node in walk(tree.root) if kind(node) in _TABLES and "alias" in body(node))
    if sum(1 for _ in tables) < _FEWEST:
        return tree
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name in {DISTINCT, NOT_DISTINCT}:
            left, right = fields
        elif name == "BinaryOp" and fields["op"] == "Spaceship":
            left, right = fields["left"], fields["right"]
        else:
            return node
        if not any(columns(left)) or not any(columns(right)):
            return node
        same = null_safe(left, right, types.of(left), types.of(right))
        return written("NOT same", same=same) if name == DISTINCT else same

    return tree.rebuilt(change)
