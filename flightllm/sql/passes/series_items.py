"""Give a row for each value of `generate_series` in the list of SELECT: DataFusion gives one row with a list."""

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import function_name

_SERIES = "generate_series"


def has_series_item(text: ParsedText) -> bool:
    """Return whether a text calls `generate_series` outside FROM."""
    return any(
        token.is_word(_SERIES) and text.is_symbol(index + 1, "(") and not text.is_word(index - 1, "from", "join")
        for index, token in enumerate(text.tokens)
    )


def series_items(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `SELECT generate_series(1, 3)` as `SELECT unnest(generate_series(1, 3))`, also below an operator.

    A series that is the argument of a function stays a list: PostgreSQL has no such text.
    """
    return tree.rebuilt(_with_rows)


def _with_rows(node: Node) -> Json:
    if kind(node) != "Select":
        return node
    items = [_item(item) for item in body(node)["projection"]]
    same = all(new is old for new, old in zip(items, body(node)["projection"], strict=True))
    return node if same else {"Select": {**body(node), "projection": items}}


def _item(item: Node) -> Json:
    fields = body(item)
    if kind(item) == "UnnamedExpr":
        expression = _unnested(fields)
        return item if expression is fields else {"UnnamedExpr": expression}
    if kind(item) != "ExprWithAlias":
        return item
    expression = _unnested(fields["expr"])
    return item if expression is fields["expr"] else {"ExprWithAlias": {**fields, "expr": expression}}


def _unnested(expression: Json) -> Json:
    fields: Json = body(expression) if kind(expression) else None
    match kind(expression):
        case "Function" if function_name(fields) == _SERIES:
            return written("unnest(l)", l=expression)
        case "Nested":
            inner = _unnested(fields)
            return expression if inner is fields else {"Nested": inner}
        case "BinaryOp":
            sides = {side: _unnested(fields[side]) for side in ("left", "right")}
        case "Cast" | "UnaryOp":
            sides = {"expr": _unnested(fields["expr"])}
        case _:
            return expression
    same = all(fields[key] is part for key, part in sides.items())
    return expression if same else {kind(expression): {**fields, **sides}}
