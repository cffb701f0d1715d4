"""Compare with the values of an array as PostgreSQL does: for DataFusion, a NULL among them is a value that differs."""

from collections.abc import Collection

from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written


def has_any_array(text: ParsedText) -> bool:
    """Return whether a text compares with ANY of something that is not a subquery."""
    return any(
        token.is_word("any", "some")
        and text.is_symbol(index + 1, "(")
        and not text.is_word(index + 2, "select", "with")
        for index, token in enumerate(text.tokens)
    )


def any_arrays(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `x = ANY (ARRAY[1, 2])` as `x IN (1, 2)`, and let the NULLs of an array make a comparison NULL.

    `x < ANY (l)` becomes `CASE WHEN cardinality(l) = 0 THEN false WHEN x < ANY (l) THEN true WHEN array_position(l,
    NULL) IS NULL THEN x < ANY (l) END`.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _with_nulls(node, own))


def _with_nulls(node: Node, own_functions: Collection[str]) -> Json:
    if kind(node) != "AnyOp" or kind(body(node)["right"]) == "Subquery":
        return node
    fields = body(node)
    array = unnested(fields["right"])
    if fields["compare_op"] == "Eq":
        listed = body(array)["elem"] if kind(array) == "Array" else []
        if listed:
            return {"InList": {"expr": fields["left"], "list": listed, "negated": False}}
    if changes_per_call([fields["left"], array], own_functions):
        return node  # a model must not be asked twice
    known = "WHEN found THEN true WHEN array_position(l, NULL) IS NULL THEN found"
    return written(f"CASE WHEN cardinality(l) = 0 THEN false {known} END", found=node, l=array)
