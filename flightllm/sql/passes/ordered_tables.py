"""Keep the order of a query in FROM, as PostgreSQL does: DataFusion leaves its ORDER BY out.

`SELECT x FROM (SELECT x FROM t ORDER BY x DESC) q LIMIT 3` then takes any three rows, and `array_agg(x)` of such rows
has any order.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, new_identifier, rebuilt, replaced, unnested
from flightllm.sql.passes.subqueries.items import by_name, column, item, without
from flightllm.sql.query_columns import Columns, QueryColumns, TableColumns
from flightllm.sql.select_shapes import changes_per_call, is_grouped, is_limited, own_nodes
from flightllm.sql.tree import Tree, text_of
from flightllm.sql.types import expressions_of, function_name

_LISTS: Final = frozenset({"array_agg", "string_agg", "first_value", "last_value"})
"""Aggregates whose result has the order of the rows."""
_NUMBERS: Final = frozenset({"row_number", "lag", "lead"})
"""Window functions that read the order of the rows, and whose result ORDER BY changes in no other way."""
_QUESTIONS: Final = frozenset({"Exists", "InSubquery"})
_ADDED: Final = "order "
"""How the name of a column begins that the pass adds."""
_NO_ORDER: Final[Json] = {"partition_by": [], "order_by": [], "window_frame": None, "window_name": None}


def ordered_tables(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT x FROM (SELECT x FROM t ORDER BY x) q LIMIT 3` as `SELECT x FROM (…) q ORDER BY q.x LIMIT 3`.

    `array_agg(x)` of such rows becomes `array_agg(x ORDER BY q.x)`, and `row_number() OVER ()` gets the order, too.
    If the query in FROM has no column for a key, it gets one.
    """
    writer = _Writer(QueryColumns(tree.root, columns_of))
    root = rebuilt(tree.root, writer.changed, lambda value: is_query(value) or kind(value) in _QUESTIONS)
    return tree if root is tree.root else Tree(tree.sql, root)


class _Writer:
    """Writes the queries of one statement."""

    def __init__(self, columns: QueryColumns) -> None:
        self._columns = columns
        self._ordered = dict[int, tuple[Json, Json]]()
        """The queries that got an order, with the same queries without it, by their identity."""

    def changed(self, value: Json) -> Json:
        if is_query(value):
            return self._query(value)
        subquery = body(value)["subquery"]
        found = self._ordered.get(id(subquery))  # a question asks for no order
        return value if found is None else replaced(value, {id(subquery): found[1]})

    def _query(self, query: Json) -> Json:
        select: Json = body(query["body"]) if kind(query["body"]) == "Select" else {"from": []}
        if len(select["from"]) != 1 or select["from"][0]["joins"]:
            return query
        calls = _calls(select)
        plain = not (is_grouped(select) or select["distinct"] or query["order_by"] or query["pipe_operators"])
        takes_order = plain and all(_is_whole(node) for node in own_nodes(select["projection"]))
        if not (takes_order or calls):
            return query
        found = self._order(select, select["from"][0]["relation"])
        if found is None:
            return query
        relation, keys = found
        table = {**select["from"][0], "relation": relation}
        changes = {id(call): _with_order(call, keys) for call in calls}
        items = replaced(select["projection"], changes)
        added = [] if relation is select["from"][0]["relation"] else [_last(key) for key in keys]
        made = {**select, "projection": [_without(one, added) for one in items], "from": [table]}
        without = {**query, "body": {"Select": made}}
        if not takes_order:
            return without
        after = {**without, "order_by": {"kind": {"Expressions": keys}, "interpolate": None}}
        if not is_limited(query):
            self._ordered[id(after)] = after, without
        return after

    def _order(self, select: Json, relation: Json) -> tuple[Json, list[Json]] | None:
        """Return the table of a FROM and the keys of its order; return None if its order or its columns are unknown."""
        inner = self._inner(relation)
        order = inner["order_by"] if inner is not None and not is_limited(inner) else None
        if not order or kind(order["kind"]) != "Expressions":
            return None
        name, shown = self._columns.table(relation)
        columns = self._columns.of(inner["body"])
        keys, added, hidden = list[Json](), list[Json](), set(_aliases(select["projection"]))
        for key in body(order["kind"]):
            place = _place(key["expr"], columns, inner["body"])
            names = shown or []
            if place is not None and _is_free(names, place, hidden):
                known = names[place]
            elif _can_grow(inner, relation) and not changes_per_call(key["expr"]):
                known = f"{_ADDED}{len(added) + 1}"
                added.append(item(by_name(unnested(key["expr"]), body(inner["body"])["projection"]), known))
            else:
                return None
            value = column(name, known) if name else {"Identifier": new_identifier(known)}
            keys.append({**key, "expr": value})
        return _grown(relation, inner, added), keys

    def _inner(self, relation: Node) -> Json:
        fields = body(relation)
        if kind(relation) == "Derived":
            return None if fields["lateral"] else fields["subquery"]
        return self._columns.common(relation) if kind(relation) == "Table" and not fields["args"] else None


def _calls(select: Json) -> list[Node]:
    """Return the calls in a SELECT that read the order of its rows and tell no order themselves."""
    return [node for node in own_nodes(select["projection"]) if kind(node) == "Function" and _reads_order(body(node))]


def _reads_order(function: Json) -> bool:
    if kind(function["args"]) not in {"List", ""} or function["within_group"]:
        return False
    if function["over"] is None:
        listed = body(function["args"]) if kind(function["args"]) == "List" else {"clauses": [0]}
        ordered = any(kind(clause) == "OrderBy" for clause in listed["clauses"])
        return function_name(function) in _LISTS and not ordered and listed["duplicate_treatment"] != "Distinct"
    spec = body(function["over"]) if kind(function["over"]) == "WindowSpec" else None
    return function_name(function) in _NUMBERS and spec == _NO_ORDER


def _with_order(call: Node, keys: list[Json]) -> Node:
    fields = body(call)
    if fields["over"] is not None:
        return {"Function": {**fields, "over": {"WindowSpec": {**body(fields["over"]), "order_by": keys}}}}
    listed = body(fields["args"])
    clauses = [*listed["clauses"], {"OrderBy": keys}]
    return {"Function": {**fields, "args": {"List": {**listed, "clauses": clauses}}}}


def _place(key: Json, columns: Columns, query: Node) -> int | None:
    """Return the place of the column of a query that a key of its ORDER BY means, or None."""
    key = unnested(key)
    number = _number(key)
    if number is not None or columns is None:
        return number
    items = expressions_of(query)
    if kind(key) == "Identifier":
        places = [place for place, one in enumerate(columns) if one.name == name_of(body(key))]
        if places:
            return places[0] if len(places) == 1 else None
    text = text_of(key)
    same = [place for place, one in enumerate(items) if text_of(unnested(one)) == text]
    if same:
        return same[0]
    if not items and kind(key) == "CompoundIdentifier":  # a star
        names = [one.name for one in columns]
        name = name_of(body(key)[-1])
        return names.index(name) if names.count(name) == 1 else None
    return None


def _number(key: Json) -> int | None:
    value = body(key)["value"] if kind(key) == "Value" else {}
    digits = str(body(value)[0]) if kind(value) == "Number" else ""
    return int(digits) - 1 if digits.isdecimal() and int(digits) else None


def _can_grow(inner: Json, relation: Node) -> bool:
    """Return whether a query in FROM can get one more column."""
    if kind(relation) != "Derived" or kind(inner["body"]) != "Select" or body(inner["body"])["distinct"]:
        return False
    alias = body(relation)["alias"]
    return not (alias and alias["columns"])


def _without(one: Node, names: Sequence[str]) -> Node:
    """Return an item of SELECT; a star, which has one table, is without the columns that the pass has added."""
    added = [name for name in names if name.startswith(_ADDED)]
    if not added or kind(one) not in {"Wildcard", "QualifiedWildcard"}:
        return one
    options = body(one) if kind(one) == "Wildcard" else body(one)[1]
    found: Node = without({"Wildcard": options}, added)
    return found


def _last(key: Json) -> str:
    """Return the name of the column that a key of the order names."""
    value = key["expr"]
    return name_of(body(value)[-1] if kind(value) == "CompoundIdentifier" else body(value))


def _is_free(names: Sequence[str], place: int, hidden: set[str]) -> bool:
    """Return whether no other column has the name of a column."""
    return place < len(names) and names.count(names[place]) == 1 and names[place] not in hidden


def _aliases(items: Sequence[Node]) -> Iterator[str]:
    """Yield the aliases of expressions that are not the column of the same name."""
    for one in items:
        if kind(one) == "ExprWithAlias":
            name, value = name_of(body(one)["alias"]), body(one)["expr"]
            parts = [body(value)] if kind(value) == "Identifier" else []
            parts = body(value) if kind(value) == "CompoundIdentifier" else parts
            if not parts or name_of(parts[-1]) != name:
                yield name


def _is_whole(node: Node) -> bool:
    """Return whether a node reads all rows in their order. A window with parts or keys does not."""
    over = body(node)["over"] if kind(node) == "Function" else None
    return over is None or (kind(over) == "WindowSpec" and body(over) == _NO_ORDER)


def _grown(relation: Node, inner: Json, added: Sequence[Json]) -> Node:
    if not added:
        return relation
    select = body(inner["body"])
    made = {"Select": {**select, "projection": [*select["projection"], *added]}}
    return {"Derived": {**body(relation), "subquery": {**inner, "body": made}}}
