"""Leave out keys of ORDER BY that come twice, and constant ones beside DISTINCT ON.

DataFusion panics on two equal keys in DISTINCT ON, which two constants can become, and refuses them in aggregates.
"""

from collections.abc import Sequence

from flightllm.sql.nodes import Json, body, columns, is_query, kind, name_of, rebuilt, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, text_of
from flightllm.sql.types import expressions_of


def has_ordered_rows(text: ParsedText) -> bool:
    """Return whether a text has DISTINCT ON, or a call with an ORDER BY of several keys."""
    return any(
        (token.is_word("distinct") and text.is_word(index + 1, "on"))
        or (token.is_word("order") and text.is_word(index + 1, "by") and _has_keys_of_call(text, index))
        for index, token in enumerate(text.tokens)
    )


def _has_keys_of_call(text: ParsedText, index: int) -> bool:
    around = text.scopes.around
    opening = around[index]
    if not opening or text.is_word(opening - 1, "over") or text.tokens[opening - 1].kind is not TokenKind.WORD:
        return False
    inside = range(index, text.closing.get(opening, index))
    return any(text.is_symbol(at, ",") and around[at] == opening for at in inside)


def repeated_keys(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `SELECT DISTINCT ON (g) g, x FROM t ORDER BY g, 1, x` as `… ORDER BY g, x`."""
    root = rebuilt(tree.root, keys_once, lambda value: is_query(value) or kind(value) == "OrderBy")
    return tree if root is tree.root else Tree(tree.sql, root)


def keys_once(value: Json) -> Json:
    """Return a query, or the ORDER BY of a call, with each key once; the same object if no key comes twice."""
    select: Json
    if not is_query(value):
        keys = _different(body(value), [], {})
        return value if len(keys) == len(body(value)) else {"OrderBy": keys}
    select = body(value["body"]) if kind(value["body"]) == "Select" else {"distinct": None}
    order, distinct = value["order_by"], select["distinct"]
    if kind(distinct) != "On":
        return value
    listed: list[Json] = list(body(distinct))
    items = expressions_of(value["body"])
    named = [body(one) for one in select["projection"] if kind(one) == "ExprWithAlias"]
    aliases = {name_of(one["alias"]): one["expr"] for one in named}
    on = [{"expr": _meant(one, items, {})} for one in listed]
    rows = [key["expr"] for key in _different(on, [], {})]
    made = {"Select": {**select, "distinct": {"On": rows}}}
    after = value if rows == listed else {**value, "body": made}
    if not order or kind(order["kind"]) != "Expressions":
        return after
    first = {text_of(_meant(one, items, aliases)) for one in rows}
    keys = [
        key
        for key in _different(body(order["kind"]), items, aliases)
        if _can_order(meant := _meant(key["expr"], items, aliases)) or text_of(meant) in first
    ]
    if len(keys) == len(body(order["kind"])):
        return after
    return {**after, "order_by": {**order, "kind": {"Expressions": keys}}}


def _different(keys: Sequence[Json], items: Sequence[Json], aliases: dict[str, Json]) -> list[Json]:
    """Return the first key of each meaning."""
    found = dict[str, Json]()
    for key in keys:
        found.setdefault(text_of(_meant(key["expr"], items, aliases)), key)
    return list(found.values())


def _can_order(value: Json) -> bool:
    """Return whether a value can differ between two rows."""
    return any(columns(value)) or changes_per_call(value)


def _meant(expression: Json, items: Sequence[Json], aliases: dict[str, Json]) -> Json:
    """Return the expression that a number or an alias means."""
    expression = unnested(expression)
    if kind(expression) == "Identifier":
        return aliases.get(name_of(body(expression)), expression)
    value = body(expression)["value"] if kind(expression) == "Value" else {}
    number = str(body(value)[0]) if kind(value) == "Number" else ""
    place = int(number) if number.isdecimal() else 0
    return unnested(items[place - 1]) if 0 < place <= len(items) else expression
