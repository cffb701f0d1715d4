"""Read parts by brackets as DuckDB does: `name[1]` and `name[2:4]` of a text, and a slice of a list without an end."""

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from flightllm.functions.text_places import TEXT_SLICE
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes

OPENED: Final = frozenset({"[", ")[", "][", "}[", "[:", ":]"})
"""A text with a part by brackets has one of these marks."""


def text_slices(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `name[2:]` of a text as `__text_slice(name, 2, NULL)`, and `list[2:]` as `list[2:-1]`.

    The begin and the end of a slice count from 1, and from the last one if they are negative.
    """
    types, own = ExpressionTypes(tree.root, columns_of), own_functions(columns_of)
    return tree.rebuilt(lambda node: _written(node, types, own))


def _written(node: Node, types: ExpressionTypes, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "CompoundFieldAccess" or changes_per_call([fields["root"]], own):
        return node
    steps = fields["access_chain"]
    last = steps[-1]
    if kind(last) != "Subscript":
        return node
    before = fields["root"] if len(steps) == 1 else {"CompoundFieldAccess": {**fields, "access_chain": steps[:-1]}}
    found, bounds = types.of(before), body(last)
    if found is not None and pa.types.is_string(found):
        return _of_text(before, bounds) or node
    chain = [*map(_closed, steps)]
    return node if chain == steps else {"CompoundFieldAccess": {**fields, "access_chain": chain}}


def _closed(step: Json) -> Json:
    """Return a slice with both of its bounds; another step stays the same."""
    bounds = body(step)
    if kind(step) != "Subscript" or kind(bounds) != "Slice":
        return step
    ends = {"lower_bound": "1", "upper_bound": "-1"}
    closed = {name: body(bounds)[name] or written(usual) for name, usual in ends.items()}
    return {"Subscript": {"Slice": {**body(bounds), **closed}}}


def _of_text(value: Json, bounds: Json) -> Json | None:
    fields = body(bounds)
    if kind(bounds) == "Index":
        return written(f"{TEXT_SLICE}(v, a, b)", v=value, a=fields["index"], b=fields["index"])
    if fields["stride"] is not None:
        return None
    first, last = (fields[name] or written("NULL") for name in ("lower_bound", "upper_bound"))
    return written(f"{TEXT_SLICE}(v, a, b)", v=value, a=first, b=last)
