"""Let an expression in ORDER BY read columns of the tables, as in PostgreSQL: DataFusion prefers columns of the result.

`SELECT -x AS x FROM t ORDER BY x` orders by `-x`, and `ORDER BY x + 0` by the table's `x`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.names import identifier
from flightllm.sql.nodes import Json, body, is_query, kind, name_of, new_identifier, rebuilt, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.tree import Tree, parse_query, text_of
from flightllm.sql.types import function_name

_ROWS: Final = frozenset({"unnest", "generate_series"})
"""Functions that make rows of one value."""
_AFTER_KEY: Final = ("asc", "desc", "nulls", "limit", "offset", "fetch", "union", "intersect", "except")


def has_order_by_expression(text: ParsedText) -> bool:
    """Return whether an ORDER BY has a column's alias, or a column of the alias's name, inside an expression.

    Beside `unnest`, it can have any column of a table.
    """
    aliases = {
        identifier(text.tokens[last - 1]) for select in text.selects for first, last in select.items if last - first > 1
    }
    if not _ROWS.isdisjoint(text.words):
        return True
    start = next((i for i, t in enumerate(text.tokens) if t.is_word("by") and text.is_word(i - 1, "order")), None)
    if start is None or not (aliases := aliases - {None}):
        return False
    return any(
        identifier(text.tokens[index]) in aliases and not _is_key(text, index)
        for index in range(start, len(text.tokens))
    )


def _is_key(text: ParsedText, index: int) -> bool:
    """Return whether a name is a key of ORDER BY itself."""
    begins = text.is_word(index - 1, "by") or text.is_symbol(index - 1, ",")
    after = index + 1
    ends = after >= len(text.tokens) or text.is_word(after, *_AFTER_KEY)
    return begins and (ends or any(text.is_symbol(after, sign) for sign in (",", ")", ";")))


def order_by_columns(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT -x AS x FROM t ORDER BY x + 0` so that the key is computed beside the column.

    The result is `SELECT "column 1" AS x FROM (SELECT -x AS "column 1", x + 0 AS "key 1" FROM t) AS "rows" ORDER BY
    "key 1"`.

    Raises:
        SqlError: a key of SELECT DISTINCT is not a column of the result.
        UnsupportedError: the SELECT has a star.
    """
    writer = _Writer(tree, QueryColumns(tree.root, columns_of))
    root = rebuilt(tree.root, writer.changed, is_query)
    return tree if root is tree.root else Tree(tree.sql, root)


class _Writer:
    """Writes the queries of one statement."""

    def __init__(self, tree: Tree, columns: QueryColumns) -> None:
        self._tree = tree
        self._columns = columns

    def changed(self, query: Json) -> Json:
        order = query["order_by"]
        if not order or kind(order["kind"]) != "Expressions" or kind(query["body"]) != "Select":
            return query
        select, keys = body(query["body"]), body(order["kind"])
        hidden = dict(_hidden(select["projection"]))
        if kind(select["distinct"]) == "On" or _is_grouped(select):
            return query
        if any(map(_makes_rows, select["projection"])):
            return self._apart(query, select, keys) if _has_new_key(select["projection"], keys) else query
        if not hidden:
            return query
        means_table = any(self._means_table(key, hidden, select) for key in keys)
        return self._apart(query, select, keys) if means_table else query

    def _means_table(self, key: Json, hidden: Mapping[str, Json], select: Json) -> bool:
        """Return whether a key is an expression with a column of a table whose name the result hides."""
        expression = unnested(key["expr"])
        if kind(expression) == "Identifier":
            return False
        used = {name_of(body(node)) for node in walk(expression) if kind(node) == "Identifier"} & hidden.keys()
        tables = set(_tables(select["from"]))
        names = (list(map(name_of, body(node))) for node in walk(expression) if kind(node) == "CompoundIdentifier")
        if any(name[-1] in hidden and name[-2] in tables for name in names):
            return True
        if not used:
            return False
        star = body(parse_query("SELECT *"))["projection"]
        known = self._columns.of({"Select": {**select, "projection": star}})
        return known is not None and not used.isdisjoint(column.name for column in known)

    def _apart(self, query: Json, select: Json, keys: list[Json]) -> Json:
        items = select["projection"]
        if any(kind(item) not in {"UnnamedExpr", "ExprWithAlias"} for item in items):
            raise UnsupportedError(
                f"the ORDER BY at {self._tree.position(keys)} reads a column of a table, and the result has another"
                " column of its name beside a star: write the columns in place of the star, or another name after AS"
            )
        inner = [_item(_expression(item), f"column {place}") for place, item in enumerate(items, 1)]
        places = _places(items)
        ordered: list[Json] = []
        for number, key in enumerate(keys, 1):
            expression = unnested(key["expr"])
            name = places(expression)
            if name is None:
                if select["distinct"]:
                    raise SqlError(
                        f"the key of ORDER BY at {self._tree.position(expression)} is not in the list of SELECT"
                        " DISTINCT: add it to the list, or leave DISTINCT out"
                    )
                name = f"key {number}"
                inner.append(_item(expression, name))
            is_number = kind(expression) == "Value"
            ordered.append(key if is_number else {**key, "expr": {"Identifier": new_identifier(name)}})
        made = {"Select": _around({**select, "projection": inner}, items)}
        return {**query, "body": made, "order_by": {**query["order_by"], "kind": {"Expressions": ordered}}}


def _has_new_key(items: list[Json], keys: list[Json]) -> bool:
    """Return whether a key is not among the items; beside a star, DataFusion finds the column of a key."""
    if any(kind(item) not in {"UnnamedExpr", "ExprWithAlias"} for item in items):
        return False
    places = _places(items)
    return any(places(unnested(key["expr"])) is None for key in keys)


def _makes_rows(item: Json) -> bool:
    """Return whether an item makes rows of a list: DataFusion then orders by columns of the result only."""
    return kind(item) in {"UnnamedExpr", "ExprWithAlias"} and any(
        kind(node) == "Function" and function_name(body(node)) in _ROWS for node in walk(_expression(item))
    )


def _is_grouped(select: Json) -> bool:
    """Return whether a SELECT has clauses that can name a column of its result, as GROUP BY can."""
    grouping = select["group_by"]
    keys = body(grouping)[0] if kind(grouping) == "Expressions" else [grouping]
    return bool(keys or select["having"] or select["qualify"])


def _tables(items: Json) -> Iterator[str]:
    """Yield the names of the tables of a FROM."""
    for node in walk(items):
        fields = body(node)
        if kind(node) in {"Table", "Derived"} and fields.get("alias"):
            yield name_of(fields["alias"]["name"])
        elif kind(node) == "Table" and "name" in fields:
            yield name_of(body(fields["name"][-1]))


def _around(inner: Json, items: list[Json]) -> Json:
    """Return a SELECT that reads the columns of another one and gives them their names."""
    outer = body(parse_query('SELECT 0 FROM (SELECT 0) AS "rows"'))
    (table,) = outer["from"]
    derived = body(table["relation"])
    rows = {**derived, "subquery": {**derived["subquery"], "body": {"Select": inner}}}
    shown = [
        {"ExprWithAlias": {"expr": {"Identifier": new_identifier(f"column {place}")}, "alias": _name(item)}}
        for place, item in enumerate(items, 1)
    ]
    return {**outer, "projection": shown, "from": [{**table, "relation": {"Derived": rows}}]}


def _places(items: list[Json]) -> Callable[[Json], str | None]:
    """Return a function that finds the column of a result which a key means; a number means itself."""
    last_first = list(enumerate(items, 1))[::-1]
    names = {name_of(_name(item)): place for place, item in last_first}
    texts = {text_of(_expression(item)): place for place, item in last_first}

    def place_of(key: Json) -> str | None:
        place = texts.get(text_of(key))
        if kind(key) == "Identifier":
            place = names.get(name_of(body(key)), place)
        if kind(key) == "Value":
            return ""
        return None if place is None else f"column {place}"

    return place_of


def _hidden(items: list[Json]) -> Iterator[tuple[str, Json]]:
    """Yield the aliases of expressions that are not the column of the same name."""
    for item in items:
        if kind(item) != "ExprWithAlias":
            continue
        expression, name = _expression(item), name_of(body(item)["alias"])
        parts = [body(expression)] if kind(expression) == "Identifier" else []
        parts = body(expression) if kind(expression) == "CompoundIdentifier" else parts
        if not parts or name_of(parts[-1]) != name:
            yield name, expression


def _item(expression: Json, name: str) -> Json:
    return {"ExprWithAlias": {"expr": expression, "alias": new_identifier(name)}}


def _expression(item: Json) -> Json:
    return body(item)["expr"] if kind(item) == "ExprWithAlias" else body(item)


def _name(item: Json) -> Json:
    """Return the name of a column of the result as an identifier."""
    if kind(item) == "ExprWithAlias":
        return body(item)["alias"]
    expression = body(item)
    if kind(expression) == "Identifier":
        return body(expression)
    return body(expression)[-1] if kind(expression) == "CompoundIdentifier" else new_identifier(text_of(expression))
