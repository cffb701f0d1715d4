"""Compare with the computed items of a list one by one.

DataFusion takes an item such as `CASE WHEN b THEN 1 END` for a constant: it computes the item without a row.
"""

from collections.abc import Collection
from functools import reduce
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree
from flightllm.sql.types import function_name

LISTS: Final = frozenset({"in", "any", "some"})
"""The words before a list."""
_FUNCTIONS: Final = frozenset({"coalesce", "nvl", "nvl2", "ifnull", "nullif", "greatest", "least"})
_CHOOSES: Final = _FUNCTIONS | {"case", "and", "or"}


def has_computed_item(text: ParsedText) -> bool:
    """Return whether a list of a text can have an item that reads a column for some rows only."""
    return not _CHOOSES.isdisjoint(text.words) and any(
        token.is_word(*LISTS) and _chooses(text, index + 1) for index, token in enumerate(text.tokens)
    )


def _chooses(text: ParsedText, opening: int) -> bool:
    last = text.closing.get(opening, opening)
    return any(token.is_word(*_CHOOSES) for token in text.tokens[opening:last])


def computed_lists(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `x IN (CASE WHEN b THEN 1 END, 2, 3)` as `(x IN (2, 3) OR x = CASE WHEN b THEN 1 END)`.

    Raises:
        UnsupportedError: the value that is compared calls a model, which must not be asked twice.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _one_by_one(tree, node, own))


def _one_by_one(tree: Tree, node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    items = fields["list"] if kind(node) == "InList" else []
    computed = [item for item in items if _is_computed(item)]
    if not computed:
        return node
    value = fields["expr"]
    if len(items) > 1 and changes_per_call([value], own):
        raise UnsupportedError(
            f"the list at {tree.position(items)} has computed items beside the answer of a model: write the call as a"
            " column of a query in FROM, and compare this column"
        )
    plain = [item for item in items if not _is_computed(item)]
    tests: list[Node] = [{"InList": {"expr": value, "list": plain, "negated": False}}] if plain else []
    tests += [{"BinaryOp": {"left": value, "op": "Eq", "right": {"Nested": item}}} for item in computed]
    found = {"Nested": reduce(lambda left, right: {"BinaryOp": {"left": left, "op": "Or", "right": right}}, tests)}
    return {"Nested": {"UnaryOp": {"op": "Not", "expr": found}}} if fields["negated"] else found


def _is_computed(item: Json) -> bool:
    return any(
        kind(node) == "Case"
        or (kind(node) == "BinaryOp" and body(node)["op"] in {"And", "Or"})
        or (kind(node) == "Function" and function_name(body(node)) in _FUNCTIONS)
        for node in walk(item)
    )
