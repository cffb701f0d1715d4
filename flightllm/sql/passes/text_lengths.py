"""Cut texts to the length of a cast's type, as SQL asks: DataFusion ignores the length in `varchar(2)`."""

from dataclasses import replace
from operator import is_not
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written

TYPES: Final = frozenset({"varchar", "char", "character", "nvarchar"})
"""The words of which a text must have one to have such a cast."""
_KINDS: Final = frozenset({"Varchar", "Nvarchar", "CharVarying", "CharacterVarying", "Char", "Character"})
_FILLED: Final = frozenset({"Char", "Character"})
_ONE: Final = ({"Char": None}, {"Character": None})
"""The types without a length, whose texts have one character."""


def text_lengths(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `CAST(a AS varchar(2))` as `left(CAST(a AS VARCHAR), 2)`.

    A text of the type `char(3)` is cut, too, and loses blanks at its end. It gets them in the result of a query:
    PostgreSQL takes no notice of them elsewhere.
    """
    query = body(tree.root) if kind(tree.root) == "Query" else {}
    if query and kind(query["body"]) == "Select" and not query["order_by"]:
        select = body(query["body"])
        items = [*map(_filled, select["projection"])]
        if not select["distinct"] and any(map(is_not, items, select["projection"])):
            root = {"Query": {**query, "body": {"Select": {**select, "projection": items}}}}
            tree = replace(tree, root=root)
    return tree.rebuilt(_cut)


def _filled(item: Json) -> Json:
    """Return an item of a result with blanks after the text of a cast to `char(3)`."""
    name, fields = kind(item), body(item)
    if name not in {"ExprWithAlias", "UnnamedExpr"}:
        return item
    value = fields["expr"] if name == "ExprWithAlias" else fields
    length = _length(value) if kind(value) == "Cast" and kind(body(value)["data_type"]) in _FILLED else None
    if length is None:
        return item
    filled = written(f"rpad(v, {length})", v=value)
    return {name: {**fields, "expr": filled} if name == "ExprWithAlias" else filled}


def _cut(node: Node) -> Json:
    length = _length(node) if kind(node) == "Cast" else None
    if length is None:
        return node
    whole = {"Cast": {**body(node), "data_type": {"Varchar": None}}}
    filled = kind(body(node)["data_type"]) in _FILLED
    return written(f"rtrim(left(v, {length}), ' ')" if filled else f"left(v, {length})", v=whole)


def _length(cast: Node) -> int | None:
    """Return the most characters of a cast to a type of texts, or None for another type."""
    data_type = body(cast)["data_type"]
    if data_type in _ONE:
        return 1
    if kind(data_type) not in _KINDS or kind(body(data_type)) != "IntegerLength":
        return None
    return int(body(body(data_type))["length"])
