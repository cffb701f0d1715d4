"""Read the division `//` of DuckDB: whole numbers divide here without a fraction, as in PostgreSQL."""

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree


def whole_division(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `a // b` as `a / b`, which has a fraction for decimals and doubles only, as in DuckDB."""
    return tree.rebuilt(_divided)


def _divided(node: Node) -> Json:
    fields = body(node)
    if kind(node) != "BinaryOp" or fields["op"] != "DuckIntegerDivide":
        return node
    return {"BinaryOp": {**fields, "op": "Divide"}}
