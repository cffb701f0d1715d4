"""Write `GROUP BY ()`, one group of all rows, in the form that DataFusion reads."""

from itertools import pairwise

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree


def has_empty_grouping(text: ParsedText) -> bool:
    """Return whether a text has `BY ()`."""
    return any(
        token.is_word("by") and after.is_symbol("(") and text.is_symbol(index + 2, ")")
        for index, (token, after) in enumerate(pairwise(text.tokens))
    )


def empty_grouping(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `GROUP BY ()` as `GROUP BY GROUPING SETS (())`."""
    return tree.rebuilt(_as_grouping_set)


def _as_grouping_set(node: Node) -> Json:
    fields = body(node)
    grouped: Json = fields["group_by"] if kind(node) == "Select" else {}
    if kind(grouped) != "Expressions" or list(body(grouped)[0]) != [{"Tuple": []}]:
        return node
    return {"Select": {**fields, "group_by": {"Expressions": [[{"GroupingSets": [[]]}], body(grouped)[1]]}}}
