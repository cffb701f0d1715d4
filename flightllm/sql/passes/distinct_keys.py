"""Let ORDER BY of SELECT DISTINCT repeat an expression of the list, which DataFusion does not recognize."""

from flightllm.sql.nodes import Json, body, is_query, kind, rebuilt, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, parse_query, text_of
from flightllm.sql.types import expressions_of

_NAMES = ("Identifier", "CompoundIdentifier", "Value")


def has_distinct_order(text: ParsedText) -> bool:
    """Return whether a text has DISTINCT and ORDER BY."""
    words = {token.text.lower() for token in text.tokens}
    return {"distinct", "order", "by"} <= words


def distinct_keys(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `SELECT DISTINCT id, upper(a) AS b FROM t ORDER BY upper(a)` as `… ORDER BY 2`."""
    root = rebuilt(tree.root, _numbered, is_query)
    return tree if root is tree.root else Tree(tree.sql, root)


def _numbered(query: Json) -> Json:
    """Return a query whose keys are numbers where they repeat an expression; the same object without such a key."""
    order = query["order_by"]
    if not order or kind(order["kind"]) != "Expressions" or kind(query["body"]) != "Select":
        return query
    if body(query["body"])["distinct"] != "Distinct":
        return query
    places = {text_of(unnested(one)): place for place, one in reversed([*enumerate(expressions_of(query["body"]), 1)])}
    keys = [_numbered_key(key, places) for key in body(order["kind"])]
    if all(new is old for new, old in zip(keys, body(order["kind"]), strict=True)):
        return query
    return {**query, "order_by": {**order, "kind": {"Expressions": keys}}}


def _numbered_key(key: Json, places: dict[str, int]) -> Json:
    expression = unnested(key["expr"])
    place = None if kind(expression) in _NAMES else places.get(text_of(expression))
    if place is None:
        return key
    (number,) = expressions_of(parse_query(f"SELECT {place}"))
    return {**key, "expr": number}
