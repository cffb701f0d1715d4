"""Compare with the values of an array as PostgreSQL does: for DataFusion, a NULL among them is a value that differs."""

from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written


def has_any_array(text: ParsedText) -> bool:
    """Return whether a text compares with ANY of something that is not a subquery."""
    return any(
        token.is_word("any", "some")
        and text.is_symbol(index + 1, "(")
        and not text.is_word(index + 2, "select", "with")
        for index, token in enumerate(text.tokens)
    )


def any_arrays(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `x = ANY (ARRAY[1, 2])` as `x IN (1, 2)`, and let the NULLs of an array make a comparison NULL.

    `x < ANY (l)` becomes `x < ANY (l) OR CASE WHEN array_position(l, NULL) IS NOT NULL THEN NULL ELSE false END`.
    """
    return tree.rebuilt(_with_nulls)


def _with_nulls(node: Node) -> Json:
    if kind(node) != "AnyOp" or kind(body(node)["right"]) == "Subquery":
        return node
    fields = body(node)
    array = unnested(fields["right"])
    if fields["compare_op"] == "Eq":
        listed = body(array)["elem"] if kind(array) == "Array" else []
        return {"InList": {"expr": fields["left"], "list": listed, "negated": False}} if listed else node
    if any(kind(part) == "Value" and kind(body(part)["value"]) == "Placeholder" for part in walk(array)):
        return node  # a parameter has one place in the text
    nulls = "CASE WHEN array_position(l, NULL) IS NOT NULL THEN NULL ELSE false END"
    return written(f"(found OR {nulls})", found=node, l=array)
