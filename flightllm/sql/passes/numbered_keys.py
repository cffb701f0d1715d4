"""Write the number of a column in ORDER BY as its expression: DataFusion loses the groups of `count(*) + 1`."""

from collections.abc import Collection, Sequence

from flightllm.sql.nodes import Json, body, is_query, kind, rebuilt, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree

_WHOLE = frozenset({"Identifier", "CompoundIdentifier", "Value"})
_ONE_COLUMN = frozenset({"UnnamedExpr", "ExprWithAlias"})


def has_numbered_key(text: ParsedText) -> bool:
    """Return whether a text can have a number as a key of ORDER BY."""
    return any(
        token.kind is TokenKind.NUMBER and (text.is_word(index - 1, "by") or text.is_symbol(index - 1, ","))
        for index, token in enumerate(text.tokens)
    )


def numbered_keys(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT a, count(*) + 1 FROM t GROUP BY a ORDER BY 2` as `… ORDER BY count(*) + 1`."""
    own = own_functions(columns_of)
    root = rebuilt(tree.root, lambda query: _changed(query, own), is_query)
    return tree if root is tree.root else Tree(tree.sql, root)


def _changed(query: Json, own: Collection[str]) -> Json:
    order = query["order_by"]
    if not order or kind(order["kind"]) != "Expressions" or kind(query["body"]) != "Select":
        return query
    select, keys = body(query["body"]), body(order["kind"])
    grouping = select["group_by"]
    if select["distinct"] or kind(grouping) != "Expressions" or not body(grouping)[0]:
        return query
    changed = [_key(key, select["projection"], own) for key in keys]
    if all(one is key for one, key in zip(changed, keys, strict=True)):
        return query
    return {**query, "order_by": {**order, "kind": {"Expressions": changed}}}


def _key(key: Json, items: Sequence[Json], own: Collection[str]) -> Json:
    """Return a key; a number of an expression without a name becomes the expression."""
    inner = unnested(key["expr"])
    number = body(body(inner)["value"])[0] if kind(inner) == "Value" and kind(body(inner)["value"]) == "Number" else ""
    place = int(number) if str(number).isdecimal() else 0
    known = {kind(item) for item in items[:place]} <= _ONE_COLUMN  # a star before it is more than one column
    if not known or not 1 <= place <= len(items) or kind(items[place - 1]) != "UnnamedExpr":
        return key
    expression = body(items[place - 1])
    if kind(expression) in _WHOLE or changes_per_call(expression, own):
        return key
    return {**key, "expr": expression}
