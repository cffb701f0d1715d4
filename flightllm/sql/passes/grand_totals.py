"""Keep conditions without columns above a grand total: DataFusion filters its input by them, and the total stays.

So `LEFT JOIN (SELECT count(*) AS n FROM b) q ON false` gives 0 in place of NULL, and `HAVING (SELECT false)` gives a
row.
"""

from typing import Final

from flightllm.sql.aggregates import AGGREGATES
from flightllm.sql.nodes import Json, Node, body, kind, rebuilt, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.references import References
from flightllm.sql.select_shapes import aggregates, conjuncts, gives_one_row, is_limited, is_single, keys_of, own_nodes
from flightllm.sql.tree import Tree, written, written_query

CONDITIONS: Final = frozenset({"on", "where", "having", "view"})
"""The words before a condition, and the word of a view, whose rows others filter. A text has one of them."""
_GROUPINGS: Final = frozenset({"GroupingSets", "Rollup", "Cube"})
_ALONE: Final = frozenset({"having", "view"})
_NO_END: Final = 10**15
"""More rows than any query has: a limit keeps conditions above it."""


def has_total(text: ParsedText) -> bool:
    """Return whether a text has an aggregate in a query that another one can read, or HAVING."""
    return not AGGREGATES.isdisjoint(text.words) and (len(text.selects) > 1 or not _ALONE.isdisjoint(text.words))


def grand_totals(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `… LEFT JOIN (SELECT count(*) AS n FROM b) q ON false` with `SELECT count(*) AS n FROM b LIMIT 1`.

    `HAVING (SELECT false)` becomes `HAVING CASE WHEN count(*) >= 0 THEN (SELECT false) END`.
    """
    references = References(QueryColumns(tree.root, columns_of))

    def change(value: Json) -> Json:
        if kind(value) == "Select":
            return _with_condition(value)
        fields = body(value) if kind(value) else value
        key = "subquery" if "subquery" in fields else "query"
        query = fields[key]
        after = query if references.free(query) else _limited(query)
        if after is query:
            return value
        made = {**fields, key: after}
        return {kind(value): made} if kind(value) else made

    root = rebuilt(tree.root, change, _can_change)
    return tree if root is tree.root else Tree(tree.sql, root)


def _can_change(value: Json) -> bool:
    """Return whether a value is a SELECT, or a table, a query of WITH or a view with a query."""
    if kind(value) == "Select":
        return "projection" in body(value)  # otherwise the privilege in GRANT and REVOKE
    return kind(value) in {"Derived", "CreateView"} or (isinstance(value, dict) and {"query", "alias"} <= value.keys())


def _limited(query: Json) -> Json:
    """Return a query whose totals have a limit; the same object without totals."""
    if is_limited(query):
        return query
    if kind(query["body"]) == "Select" and _has_total(body(query["body"])):
        limit = 1 if gives_one_row(query) else _NO_END
        return {**query, "limit_clause": written_query(f"SELECT 0 LIMIT {limit}")["limit_clause"]}
    after = _side(query["body"])
    return query if after is query["body"] else {**query, "body": after}


def _side(side: Node) -> Node:
    """Return a side of a set operation whose totals have a limit."""
    fields = body(side)
    match kind(side):
        case "Query":
            after = _limited(fields)
            return side if after is fields else {"Query": after}
        case "SetOperation":
            left, right = (
                {"Query": _limited({**written_query("SELECT 0"), "body": one})}
                if kind(one) == "Select" and _has_total(body(one))
                else _side(one)
                for one in (fields["left"], fields["right"])
            )
            same = left is fields["left"] and right is fields["right"]
            return side if same else {"SetOperation": {**fields, "left": left, "right": right}}
        case _:
            return side


def _has_total(select: Json) -> bool:
    """Return whether a SELECT computes a row over all rows of its tables, also beside the rows of groups."""
    modifiers = kind(select["group_by"]) == "Expressions" and body(select["group_by"])[1]
    return is_single(select) or bool(modifiers) or any(kind(key) in _GROUPINGS for key in keys_of(select))


def _with_condition(node: Node) -> Node:
    """Return a SELECT with an aggregate in each condition of HAVING that has neither a column nor an aggregate."""
    select = body(node)
    if select["having"] is None or not _has_total(select):
        return node
    changes = {
        id(one): written("CASE WHEN count(*) >= 0 THEN condition END", condition=one)
        for one in conjuncts(select["having"])
        if any(kind(part) == "Subquery" for part in own_nodes(one)) and not aggregates(one)
    }
    return {"Select": {**select, "having": replaced(select["having"], changes)}} if changes else node
