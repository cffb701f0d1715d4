"""Keep `IS NOT DISTINCT FROM` of one join from the other joins: DataFusion gives all keys of inner joins one meaning.

A chain of inner joins takes the meaning of NULL from its last join. So `a.g = b.g` matches NULL with NULL if the last
condition is `r.k IS NOT DISTINCT FROM a.g`, and `IS NOT DISTINCT FROM` does not if the last condition has `=`.
"""

from typing import Final

from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT, has_distinct_from
from flightllm.sql.nodes import Json, Node, body, kind, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written

_TABLES: Final = frozenset({"Table", "Derived", "UNNEST", "TableFunction"})
_FEWEST: Final = 3
"""The tables of the smallest chain that has two joins."""
_NAMES: Final = frozenset({"Identifier", "CompoundIdentifier"})


def has_null_safe(text: ParsedText) -> bool:
    """Return whether a text has `IS [NOT] DISTINCT FROM` or `<=>`."""
    return "<=>" in text.marks or has_distinct_from(text)


def null_safe_joins(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `r.k IS NOT DISTINCT FROM a.g` as `struct(r.k) = struct(a.g)`, which a join reads as a usual key.

    A struct is never NULL itself. Two structs are equal if their fields are equal or are both NULL. IS DISTINCT FROM
    changes, too: DataFusion writes its negation as IS NOT DISTINCT FROM. A statement with fewer than 3 tables has no
    chain of joins, and stays.
    """
    tables = (node for node in walk(tree.root) if kind(node) in _TABLES and "alias" in body(node))
    return tree.rebuilt(_with_structs) if sum(1 for _ in tables) >= _FEWEST else tree


def _with_structs(node: Node) -> Json:
    name, fields = kind(node), body(node)
    if name in {DISTINCT, NOT_DISTINCT}:
        left, right = fields
    elif name == "BinaryOp" and fields["op"] == "Spaceship":
        left, right = fields["left"], fields["right"]
    else:
        return node
    if not _has_name(left) or not _has_name(right):
        return node
    return written(f"(struct(l) {'<>' if name == DISTINCT else '='} struct(r))", l=left, r=right)


def _has_name(value: Json) -> bool:
    return any(kind(node) in _NAMES for node in walk(value))
