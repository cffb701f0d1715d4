"""Drop the collations that order texts by their bytes: the server has no other order."""

from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, name_of
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree

_OF_BYTES: Final = frozenset({"c", "posix", "ucs_basic", "default", "c.utf-8", "c.utf8", "binary"})


def collations(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `a COLLATE "C"` as `a`; also in the columns of CREATE TABLE.

    Raises:
        UnsupportedError: a collation has another order.
    """

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "Collate":
            _check(fields["collation"])
            return fields["expr"]
        if name == "CreateTable":
            return {name: {**fields, "columns": [_column(one) for one in fields["columns"]]}}
        return node

    return tree.rebuilt(change)


def _column(column: Json) -> Json:
    kept = [one for one in column["options"] if kind(one["option"]) != "Collation"]
    if len(kept) == len(column["options"]):
        return column
    for one in column["options"]:
        if kind(one["option"]) == "Collation":
            _check(body(one["option"]))
    return {**column, "options": kept}


def _check(collation: Json) -> None:
    name = name_of(body(collation[-1]))
    if name.lower() not in _OF_BYTES:
        raise UnsupportedError(
            f"the collation {name!r} is not supported: texts are ordered by their bytes, so leave COLLATE out, or write"
            ' COLLATE "C"'
        )
