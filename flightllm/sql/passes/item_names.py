"""Keep the names of unnamed columns in queries of FROM and WITH: a pass writes other calls than the text."""

from collections.abc import Callable, Sequence
from typing import Final

from flightllm.sql.nodes import Json, Node, body, factors, kind, name_of, new_identifier, rebuilt, same, text_of_literal
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, text_of
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_SIGNS: Final = {
    "Plus": "+",
    "Minus": "-",
    "Multiply": "*",
    "Divide": "/",
    "Modulo": "%",
    "Eq": "=",
    "NotEq": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "And": "AND",
    "Or": "OR",
    "StringConcat": "||",
}
_COMPUTED: Final = frozenset({"BinaryOp", "Function", "Nested", "Cast", "Case", "UnaryOp"})
_Owner = Callable[[str], str]
"""Returns a column of a SELECT by its name, with the name of its table."""


def with_item_names(tree: Tree, columns_of: TableColumns, change: Callable[[Tree], Tree]) -> Tree:
    """Return what `change` makes of a tree; items of inner queries that it changes have the names of DataFusion."""
    types = ExpressionTypes(tree.root, columns_of)
    given = dict[int, Json]()
    """Each item that got a name, by the identity of the name; the item stays alive."""

    def named(value: Json) -> Json:
        if "query" in value:
            return {**value, "query": _with_names(value["query"], types, given)}
        fields = body(value)
        return {"Derived": {**fields, "subquery": _with_names(fields["subquery"], types, given)}}

    def unnamed(node: Node) -> Json:
        item = given.get(id(body(node)["alias"])) if kind(node) == "ExprWithAlias" else None
        same = item is not None and body(item)["expr"] is body(node)["expr"]
        return {"UnnamedExpr": body(node)["expr"]} if same else node

    begun = Tree(tree.sql, rebuilt(tree.root, named, _is_table))
    made = change(begun).rebuilt(unnamed)
    return tree if same(made.root, tree.root) else made  # a text that nothing changes stays byte for byte


def _is_table(value: Json) -> bool:
    """Return whether a value is a query of FROM, or one of WITH."""
    return kind(value) == "Derived" or (isinstance(value, dict) and "query" in value and "closing_paren_token" in value)


def _with_names(query: Json, types: ExpressionTypes, given: dict[int, Json]) -> Json:
    """Return a query, or a part of one, whose computed items have names."""
    if kind(query) == "Query":
        return {"Query": _with_names(body(query), types, given)}
    if kind(query) == "SetOperation":
        return {"SetOperation": {**body(query), "left": _with_names(body(query)["left"], types, given)}}
    if not kind(query):
        return {**query, "body": _with_names(query["body"], types, given)}
    if kind(query) != "Select":
        return query
    before: Sequence[Json] = body(query)["projection"]
    owner = _owner_of(body(query)["from"], types)
    names = [
        _name(body(item), owner) if kind(item) == "UnnamedExpr" and kind(body(item)) in _COMPUTED else ""
        for item in before
    ]
    after = [
        {"ExprWithAlias": {"expr": body(item), "alias": new_identifier(name)}}
        if name and names.count(name) == 1
        else item
        for item, name in zip(before, names, strict=True)
    ]
    given.update((id(body(one)["alias"]), one) for one, old in zip(after, before, strict=True) if one is not old)
    return {"Select": {**body(query), "projection": after}}


def _owner_of(items: Sequence[Json], types: ExpressionTypes) -> _Owner:
    tables = [types.table(one) for one in factors(items)]

    def owner(column: str) -> str:
        known = [name for name, columns in tables if name and column in (columns or ())]
        known = known or [name for name, columns in tables if name and columns is None]
        return f"{known[0]}.{column}" if known else column

    return owner


def _name(value: Json, owner: _Owner) -> str:
    """Return the name that DataFusion gives to an item, or its text if the name is not known."""
    try:
        return _known_name(value, owner)
    except LookupError:
        return text_of(value)


def _known_name(value: Json, owner: _Owner) -> str:
    fields = body(value) if kind(value) else {}
    match kind(value):
        case "Identifier":
            return owner(name_of(fields))
        case "CompoundIdentifier":
            return ".".join(map(name_of, fields))
        case "Nested":
            return _known_name(fields, owner)
        case "BinaryOp":
            return f"{_known_name(fields['left'], owner)} {_SIGNS[fields['op']]} {_known_name(fields['right'], owner)}"
        case "UnaryOp" if fields["op"] == "Minus" and kind(fields["expr"]) != "Value":
            return f"(- {_known_name(fields['expr'], owner)})"
        case "Cast":
            return _known_name(fields["expr"], owner)
        case "Value":
            return _literal(value)
        case "Function":
            return _call(fields, owner)
        case _:
            raise LookupError(kind(value))


def _call(fields: Json, owner: _Owner) -> str:
    listed = body(fields["args"]) if kind(fields["args"]) == "List" else {}
    given = arguments(fields)
    if fields["over"] or not listed or listed["clauses"] or len(given) != len(listed["args"]):
        raise LookupError(function_name(fields))
    distinct = "DISTINCT " if listed["duplicate_treatment"] == "Distinct" else ""
    shown = f"{function_name(fields)}({distinct}{','.join(_known_name(one, owner) for one in given)})"
    return f"{shown} FILTER (WHERE {_known_name(fields['filter'], owner)})" if fields["filter"] else shown


def _literal(value: Json) -> str:
    if (text := text_of_literal(value)) is not None:
        return f'Utf8("{text}")'
    literal = body(value)["value"]
    if kind(literal) == "Boolean":
        return f"Boolean({str(body(literal)).lower()})"
    number = str(body(literal)[0]) if kind(literal) == "Number" else ""
    if not number.isdecimal() or int(number) >= 1 << 63:
        raise LookupError(number)
    return f"Int64({int(number)})"
