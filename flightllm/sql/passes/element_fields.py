"""Read a field of a struct in a list: `spans[1].label`, which DataFusion reads only as `spans[1]['label']`."""

from collections.abc import Collection
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, name_of
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written

AFTER_BRACKET: Final = frozenset({"].", ").", "}."})
"""The marks of which a text must have one to read such a field."""


def element_fields(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `spans[1].label` as `spans[1]['label']`, and `(span).label` as `(span)['label']`.

    The field of an AI call stays as it is: the binder reads it.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _by_name(node, own))


def _by_name(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "CompoundFieldAccess" or changes_per_call(fields["root"], own):
        return node
    steps = fields["access_chain"]
    named = 0
    if kind(fields["root"]) == "Identifier":  # the dots before a bracket belong to the name of a column
        named = next((at for at, step in enumerate(steps) if kind(step) == "Subscript"), len(steps))
    chain = [*steps[:named], *map(_subscript, steps[named:])]
    return {"CompoundFieldAccess": {**fields, "access_chain": chain}}


def _subscript(step: Json) -> Json:
    if kind(step) != "Dot" or kind(body(step)) != "Identifier":
        return step
    text = name_of(body(body(step))).replace("'", "''")
    return body(written(f"v['{text}']"))["access_chain"][0]
