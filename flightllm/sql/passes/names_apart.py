"""Give each column without an alias a name of its own: DataFusion rejects two columns of one name.

It leaves casts and subqueries out of names, and writes operators and functions in one form: `id != 1` and `id <> 1`
have one name, and so have the columns of `SELECT CAST(x AS text) FROM t ORDER BY x`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from flightllm.sql.alignment import edited, replacements
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, new_identifier, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tree import parse, text_of

SAME_NAME: Final = "unique expression names"
"""A part of DataFusion's error message for two columns of the same name."""


def names_apart(sql: str, named: Callable[[str], str]) -> str:
    """Return a query with an alias for each expression; `named` makes the alias of an expression's text.

    ORDER BY means a column of the result first, as in PostgreSQL: `x` is the name of `CAST(x AS text)` there.
    """
    text = ParsedText(sql)
    tree = parse(text)
    if tree is None:
        return sql
    apart = tree.rebuilt(lambda node: _apart(node, named))
    return edited(sql, replacements(text, ParsedText(apart.printed())))


def _apart(node: Node, named: Callable[[str], str]) -> Json:
    name, fields = kind(node), body(node)
    if name == "Select":
        return {name: {**fields, "projection": list(_aliased(fields["projection"], named))}}
    if is_query(fields):
        return {name: _ordered(fields)}
    if not isinstance(fields, dict) or not any(map(is_query, fields.values())):
        return node
    return {name: {key: _ordered(one) if is_query(one) else one for key, one in fields.items()}}


def _aliased(items: Sequence[Json], named: Callable[[str], str]) -> Iterator[Json]:
    count = Counter[str]()
    for item in items:
        if kind(item) != "UnnamedExpr" or kind(body(item)) in {"Identifier", "CompoundIdentifier"}:
            yield item
            continue
        written = text_of(body(item))
        count[written] += 1
        name = named(written if count[written] == 1 else f"{written} ({count[written]})")
        yield {"ExprWithAlias": {"expr": body(item), "alias": new_identifier(name)}}


def _ordered(query: Json) -> Json:
    """Return a query whose ORDER BY names its casts of columns by their aliases."""
    order = query["order_by"]
    if not order or kind(order["kind"]) != "Expressions" or kind(query["body"]) != "Select":
        return query
    casts = dict(filter(None, map(_cast, body(query["body"])["projection"])))
    keys = [_by_alias(key, casts) for key in body(order["kind"])]
    return {**query, "order_by": {**order, "kind": {"Expressions": keys}}}


def _cast(item: Json) -> tuple[str, Json] | None:
    """Return the column that an item casts, and the item's alias."""
    if kind(item) != "ExprWithAlias" or kind(unnested(body(item)["expr"])) != "Cast":
        return None
    value = body(item)["expr"]
    while kind(value) in {"Nested", "Cast"}:
        value = body(value) if kind(value) == "Nested" else body(value)["expr"]
    return (name_of(body(value)), body(item)["alias"]) if kind(value) == "Identifier" else None


def _by_alias(key: Json, casts: dict[str, Json]) -> Json:
    name = name_of(body(key["expr"])) if kind(key["expr"]) == "Identifier" else ""
    return {**key, "expr": {"Identifier": casts[name]}} if name in casts else key
