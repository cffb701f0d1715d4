"""Write the row of a table as a JSON object where PostgreSQL's JSON functions take it: `row_to_json(t)`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from flightllm.common.names import quoted
from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_OBJECT
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, factors, is_query, kind, name_of, rebuilt, unnested
from flightllm.sql.passes.whole_rows import lacking_rows
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import function_name

TAKING: Final = frozenset(
    {
        *("to_json", "to_jsonb", "row_to_json", "json_agg", "jsonb_agg"),
        *("json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array"),
        *("json_object_agg", "jsonb_object_agg"),
    }
)
"""The functions that take a row."""
_CLAUSES: Final = ("projection", "selection", "having", "qualify")


def row_values(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `json_agg(t)` as `json_agg(…)` of an object with the columns of the table `t` of FROM.

    Raises:
        UnsupportedError: the columns are unknown, or an outer join can lack a row of the table.
    """
    columns = QueryColumns(tree.root, columns_of)

    def change(node: Node) -> Json:
        if is_query(node) and kind(node["body"]) == "Select" and node["order_by"]:
            order = _changed(node["order_by"], body(node["body"]), columns)
            return node if order is node["order_by"] else {**node, "order_by": order}
        if kind(node) != "Select":
            return node
        select = body(node)
        clauses = {clause: _changed(select[clause], select, columns) for clause in _CLAUSES}
        same = all(clauses[clause] is select[clause] for clause in _CLAUSES)
        return node if same else {"Select": {**select, **clauses}}

    root = rebuilt(tree.root, change, lambda found: is_query(found) or kind(found) == "Select")
    return tree if root is tree.root else replace(tree, root=root)


def _changed(clause: Json, select: Json, columns: QueryColumns) -> Json:
    """Return a clause of a SELECT in which calls take objects in place of rows."""
    tables = dict(columns.table(factor) for factor in factors(select["from"]))
    lacking = {name for item in select["from"] for name in lacking_rows(item)}

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "Function" or function_name(fields) not in TAKING or kind(fields["args"]) != "List":
            return node
        listed = body(fields["args"])
        given = [_argument(one, tables, lacking) for one in listed["args"]]
        if all(one is before for one, before in zip(given, listed["args"], strict=True)):
            return node
        return {"Function": {**fields, "args": {"List": {**listed, "args": given}}}}

    return rebuilt(clause, change)


def _argument(given: Json, tables: Mapping[str, Sequence[str] | None], lacking: set[str]) -> Json:
    if kind(given) != "Unnamed" or kind(body(given)) != "Expr":
        return given
    inner = unnested(body(body(given)))
    if kind(inner) != "Identifier":
        return given
    name = name_of(body(inner))
    if name not in tables or any(name in (known or ()) for known in tables.values()):
        return given
    listed = tables[name]
    if not listed or len(set(listed)) < len(listed):
        raise UnsupportedError(
            f"the columns of the row {name} are not known here: write json_build_object('a', {name}.a, 'b', {name}.b)"
        )
    if name in lacking:
        raise UnsupportedError(
            f"an outer join can lack a row of {name}: write CASE WHEN {name}.{listed[0]} IS NOT NULL THEN"
            f" json_build_object('{listed[0]}', {name}.{listed[0]}) END"
        )
    names = ", ".join(text_literal(one) for one in listed)
    values = ", ".join(f"to_json({quoted(name)}.{quoted(one)})" for one in listed)
    return {"Unnamed": {"Expr": written(f"{JSON_OBJECT}(make_array({names}), make_array({values}))")}}
