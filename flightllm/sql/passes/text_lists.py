"""Join the texts of a group: `group_concat` of MySQL and SQLite and `listagg` of Snowflake are `string_agg` here."""

from collections.abc import Collection
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

TEXT_LISTS: Final = frozenset({"group_concat", "listagg"})
"""The aggregates that the pass rewrites."""


def text_lists(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `group_concat(x)` as `string_agg(x, ',')`, with its DISTINCT, ORDER BY and FILTER.

    `WITHIN GROUP (ORDER BY y)` and MySQL's `SEPARATOR '|'` become parts of the call.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _written(node, own))


def _written(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in TEXT_LISTS or name in own:
        return node
    given = arguments(fields)
    if not 1 <= len(given) <= 2:
        return node
    listed = body(fields["args"])
    separator: Json = given[1] if len(given) > 1 else written("','")
    clauses = []
    for clause in listed["clauses"]:
        if kind(clause) == "Separator":
            separator = {"Value": {**body(written("','")), "value": body(clause)}}
        else:
            clauses.append(clause)
    if fields["within_group"]:
        clauses = [{"OrderBy": fields["within_group"]}, *clauses]
    args = {**listed, "args": [{"Unnamed": {"Expr": one}} for one in (given[0], separator)], "clauses": clauses}
    named = body(written("string_agg(v)"))["name"]
    return {"Function": {**fields, "name": named, "args": {"List": args}, "within_group": []}}
