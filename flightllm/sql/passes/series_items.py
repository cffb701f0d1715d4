"""Give a row for each value of `generate_series` in the list of SELECT: DataFusion gives one row with a list."""

from collections.abc import Iterator
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.shapes import is_aggregate, own_nodes
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import function_name

_SERIES: Final = "generate_series"
_TAKES_LISTS: Final = frozenset({"unnest", "cardinality", "array_length", "array_to_string"})
"""Functions of a list; with them, DataFusion's list of a series stays."""


def has_series_item(text: ParsedText) -> bool:
    """Return whether a text calls `generate_series` outside FROM."""
    return any(
        token.is_word(_SERIES) and text.is_symbol(index + 1, "(") and not text.is_word(index - 1, "from", "join")
        for index, token in enumerate(text.tokens)
    )


def series_items(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `SELECT generate_series(1, 3)` as `SELECT unnest(generate_series(1, 3))`, also inside an expression.

    Raises:
        UnsupportedError: an aggregate has a series.
    """
    return tree.rebuilt(lambda node: _with_rows(node, tree))


def _with_rows(node: Node, tree: Tree) -> Json:
    if kind(node) != "Select":
        return node
    items = body(node)["projection"]
    kept = set[int]()
    for found in own_nodes(items):
        if kind(found) == "Function" and function_name(body(found)) in _TAKES_LISTS:
            kept |= {id(series) for series in _series(body(found)["args"])}
        elif is_aggregate(found) and any(True for _ in _series(body(found)["args"])):
            raise UnsupportedError(
                f"the aggregate at {tree.position(found)} has a series: write the series in FROM, as in"
                " FROM generate_series(1, 3) AS s(i)"
            )
    changes = {id(series): written("unnest(l)", l=series) for series in _series(items) if id(series) not in kept}
    return {"Select": {**body(node), "projection": replaced(items, changes)}} if changes else node


def _series(value: Json) -> Iterator[Node]:
    """Yield the series in a value that are in no query inside it."""
    for node in own_nodes(value):
        if kind(node) == "Function" and function_name(body(node)) == _SERIES:
            yield node
