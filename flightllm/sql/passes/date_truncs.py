"""Give `date_trunc` of a date a time zone, as in PostgreSQL: DataFusion gives it a plain timestamp."""

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, is_date


def date_truncs(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `date_trunc('month', day)` as `CAST(date_trunc('month', day) AS TIMESTAMP WITH TIME ZONE)`."""
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        if kind(node) != "Function" or function_name(body(node)) != "date_trunc":
            return node
        given = arguments(body(node))
        zoned = len(given) > 1 and is_date(types.of(given[1]))
        return written("CAST(v AS TIMESTAMP WITH TIME ZONE)", v=node) if zoned else node

    return tree.rebuilt(change)
