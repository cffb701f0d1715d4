"""Cut texts to the length of a cast's type, as SQL asks: DataFusion ignores the length in `varchar(2)`."""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written

TYPES: Final = frozenset({"varchar", "char", "character", "nvarchar"})
"""The words of which a text must have one to have such a cast."""
_KINDS: Final = frozenset({"Varchar", "Nvarchar", "CharVarying", "CharacterVarying", "Char", "Character"})


def text_lengths(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `CAST(a AS varchar(2))` as `left(CAST(a AS VARCHAR), 2)`.

    A text of the type `char(3)` is cut, too, but gets no blanks: PostgreSQL takes no notice of these in comparisons.
    """
    return tree.rebuilt(_cut)


def _cut(node: Node) -> Json:
    fields = body(node)
    if kind(node) != "Cast" or kind(fields["data_type"]) not in _KINDS:
        return node
    length = body(fields["data_type"])
    if kind(length) != "IntegerLength":
        return node
    whole = {"Cast": {**fields, "data_type": {"Varchar": None}}}
    return written(f"left(v, {body(length)['length']})", v=whole)
