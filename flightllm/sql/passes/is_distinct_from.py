"""Put parentheses around `IS [NOT] DISTINCT FROM`: DataFusion reads all that follows as its right side."""

from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree

_PREDICATES = (DISTINCT, NOT_DISTINCT)
_FIELDS = {"BinaryOp": ("left", "right"), "UnaryOp": ("expr",)}
"""The operands of operators that do not bind closer than IS."""


def is_distinct_from(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `a IS DISTINCT FROM b AND c` as `(a IS DISTINCT FROM b) AND c`."""
    return tree.rebuilt(_nested)


def _nested(node: Node) -> Json:
    name, fields = kind(node), body(node)
    if name in _FIELDS and any(kind(fields[field]) in _PREDICATES for field in _FIELDS[name]):
        return {name: {**fields, **{field: _in_parentheses(fields[field]) for field in _FIELDS[name]}}}
    if name in _PREDICATES and any(kind(side) in _PREDICATES for side in fields):
        return {name: [_in_parentheses(side) for side in fields]}
    return {name: _in_parentheses(fields)} if name.startswith("Is") and kind(fields) in _PREDICATES else node


def _in_parentheses(value: Json) -> Json:
    return {"Nested": value} if kind(value) in _PREDICATES else value
