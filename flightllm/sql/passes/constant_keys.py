"""Keep the keys of joins that become constant: DataFusion forgets a key if it finds late that one side is constant.

So `FROM (SELECT lower('') AS c) t JOIN words w ON (t.c IS NULL) = (w.w IS NULL)` joins all rows.
"""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, columns, kind, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.select_shapes import conjuncts, own_nodes
from flightllm.sql.tree import Tree, written

WORDS: Final = frozenset({"is", "case"})
"""The words of a test whose result can be constant for a column: a column that is never NULL, for example."""
_SIDES: Final = frozenset({")=", "=("})
_TESTS: Final = frozenset({"IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsNotTrue", "IsNotFalse", "Case"})


def has_test_as_key(text: ParsedText) -> bool:
    """Return whether a text can compare a test with another value."""
    return "case" in text.words or not _SIDES.isdisjoint(text.marks)


def constant_keys(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `ON (a IS NULL) = (b IS NULL)` as `ON (a IS NULL) = (b IS NULL) AND ((a IS NULL) = (b IS NULL)) IS TRUE`.

    The second condition cannot be a key, so it stays.
    """
    return tree.rebuilt(_changed)


def _changed(node: Node) -> Json:
    fields = body(node)
    if kind(node) == "On":
        after = _twice(fields)
        return node if after is fields else {"On": after}
    condition = fields.get("selection") if isinstance(fields, dict) else None
    after = _twice(condition)
    return node if after is condition else {kind(node): {**fields, "selection": after}}


def _twice(condition: Json) -> Json:
    """Return a condition with a second one beside each equality of tests; the same object without such an equality."""
    changes = {
        id(one): written("(same AND (same) IS TRUE)", same=one) for one in conjuncts(condition) if _compares_test(one)
    }
    return replaced(condition, changes) if changes else condition


def _compares_test(one: Json) -> bool:
    if kind(one) != "BinaryOp" or body(one)["op"] != "Eq":
        return False
    sides = body(one)["left"], body(one)["right"]
    tested = any(kind(node) in _TESTS for side in sides for node in own_nodes(side))
    return tested and all(any(columns(side)) for side in sides)
