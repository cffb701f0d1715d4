"""Write columns that JOIN … USING and NATURAL JOIN merge: DataFusion reads one side's column in their place."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from flightllm.common.names import IN_PLACE
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.joined_tables import JoinedTables, MergedColumns, UnreadableError, merged_item, place_of_join
from flightllm.sql.joins import FULL, join_kind
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, rebuilt, replaced, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, TableColumns, identifiers
from flightllm.sql.references import References
from flightllm.sql.tokens import position
from flightllm.sql.tree import Tree, fault, parse_query

_CHANGED: Final = frozenset({"SetOperation", "NestedJoin", "Update", "Delete"})
"""The nodes that can change beside queries."""


def check_unread(text: ParsedText) -> None:
    """Raise `SqlError` for a text that the parser does not read, if a RIGHT or FULL join can merge columns there."""
    for index, token in enumerate(text.tokens):
        after = index + 1 + text.is_word(index + 1, "outer")
        if token.is_word("right", "full") and text.is_word(after, "join"):
            raise _refused(token.text.upper(), position(text.sql, token.start), f": {fault(text)}")


def using(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT a FROM t RIGHT JOIN u USING (a)` as `SELECT "u"."a" FROM t RIGHT JOIN u ON "t"."a" = "u"."a"`.

    The column is the left one for INNER and LEFT, and `coalesce` of both for FULL. A star becomes the merged columns
    and the other columns of each table. A query with only inner joins keeps USING if it reads no merged column.
    Joins in parentheses with a name become a subquery, because DataFusion keeps both keys there.

    Raises:
        SqlError: the text does not say which column USING or NATURAL means; or a RIGHT or FULL join merges a column in
            the FROM of an UPDATE or DELETE, which reads the column.
        UnsupportedError: a star over merged columns has REPLACE, RENAME or ILIKE.
    """
    writer = _Writer(tree, QueryColumns(tree.root, columns_of))
    root = rebuilt(tree.root, writer.changed, lambda value: is_query(value) or kind(value) in _CHANGED)
    return tree if root is tree.root else Tree(tree.sql, root)


def _as_query(fields: Json, changed: Callable[[Json], Json]) -> Node:
    """Rewrite `(t JOIN u USING (a)) AS q` as `(SELECT * FROM t JOIN u USING (a)) AS q`; `changed` writes the query."""
    (table,) = body(parse_query('SELECT * FROM (SELECT * FROM "t") AS "q"'))["from"]
    derived = body(table["relation"])
    select = {**body(derived["subquery"]["body"]), "from": [fields["table_with_joins"]]}
    query = changed({**derived["subquery"], "body": {"Select": select}})
    return {"Derived": {**derived, "subquery": query, "alias": fields["alias"]}}


def _refused(word: str, place: str, reason: str) -> SqlError:
    return SqlError(
        f"the join at {place} is {word} and has USING or NATURAL, and the server cannot read the merged column here"
        f"{reason}: write the join as"
        f" (SELECT coalesce(a.id, b.id) AS id, … FROM a {word} JOIN b ON a.id = b.id) AS q"
    )


class _Writer:
    """Writes the queries of one statement."""

    def __init__(self, tree: Tree, columns: QueryColumns) -> None:
        self._tree = tree
        self._columns = columns
        self._references = References(columns)

    def changed(self, value: Json) -> Json:
        """Return a query or another node with its merged columns."""
        if is_query(value):
            if kind(value["body"]) != "Select":
                return value
            select, order = self._select(value["body"], value["order_by"])
            return value if select is value["body"] else {**value, "body": select, "order_by": order}
        fields = body(value)
        if kind(value) == "SetOperation":
            sides = {
                key: self._select(fields[key], None)[0] for key in ("left", "right") if kind(fields[key]) == "Select"
            }
            same = all(fields[key] is side for key, side in sides.items())
            return value if same else {"SetOperation": {**fields, **sides}}
        if kind(value) != "NestedJoin":
            self._check_change(value)
        elif fields["alias"]:
            return _as_query(fields, self.changed)
        return value

    def _check_change(self, change: Node) -> None:
        """Raise `SqlError` if an UPDATE or a DELETE reads a column that is missing in some rows of its FROM."""
        fields = body(change)
        given = fields.get("from") if kind(change) == "Update" else None
        items = body(given) if given else fields.get("using")
        found = JoinedTables(self._tree, self._columns, self._replaced)
        try:
            found.read(items or ())
        except UnreadableError:
            return
        merged = {name: one for name, one in found.merged().items() if name in found.missing}
        read = {key: part for key, part in fields.items() if key not in {"from", "using", "table"}}
        star = any(kind(item) == "Wildcard" for item in fields.get("returning") or ())
        if found.missing and (found.reads or star or self._replaced(read, merged) is not read):
            join = next(iter(found.missing.values()))
            word = "FULL" if join_kind(join) == FULL else "RIGHT"
            raise _refused(word, place_of_join(self._tree, join), "")

    def _select(self, select: Node, order: Json) -> tuple[Node, Json]:
        """Return a SELECT with the merged columns, and the ORDER BY of its query."""
        fields = body(select)
        in_place = any(kind(item) == "Wildcard" and IN_PLACE in _names(body(item)) for item in fields["projection"])
        found = JoinedTables(self._tree, self._columns, self._replaced, strict=in_place)
        try:
            tables = found.read(fields["from"])
        except UnreadableError:
            return select, order
        if all(one is item for one, item in zip(tables, fields["from"], strict=True)):
            return select, order
        columns = found.merged()
        made = {key: self._replaced(part, columns) for key, part in fields.items() if key not in {"from", "projection"}}
        made["projection"] = list(self._items(fields["projection"], columns, found))
        changed = any(made[key] is not fields[key] for key in made if key != "projection")
        changed |= any(one is not item for one, item in zip(made["projection"], fields["projection"], strict=False))
        ordered = self._ordered(order, select, columns)
        if not found.outer and not changed and ordered is order and not found.reads:
            return select, order
        return {"Select": {**fields, **made, "from": tables}}, ordered

    def _items(self, items: Sequence[Json], columns: MergedColumns, found: JoinedTables) -> Iterator[Json]:
        for item in items:
            if kind(item) == "Wildcard":
                yield from self._star(body(item), columns, found)
            elif kind(item) == "UnnamedExpr" and kind(column := unnested(body(item))) == "Identifier":
                name = name_of(body(column))
                yield merged_item(name, columns[name]) if name in columns else item
            else:
                yield self._replaced(item, columns)

    def _star(self, star: Json, columns: MergedColumns, found: JoinedTables) -> Iterator[Json]:
        """Yield the items of a star; DuckDB's has a mark, and keeps the places of merged columns."""
        names = _names(star)
        if IN_PLACE not in names:
            yield from found.star(self._excluded(star, found))
            return
        replacing = star["opt_replace"]
        if any(table.columns is None for table in found.tables):
            self._refuse_star(star, "a table without known columns")
        changed = {name_of(one["column_name"]): one["expr"] for one in (replacing["items"] if replacing else ())}
        exprs = {name: self._replaced(value, columns) for name, value in changed.items()}
        yield from found.star_in_place(names - {IN_PLACE}, exprs)

    def _refuse_star(self, star: Json, what: str) -> NoReturn:
        place = self._tree.position(star["wildcard_token"])
        raise UnsupportedError(
            f"the star at {place} is over merged columns of USING or NATURAL, and {what} does not work there: name"
            " the columns"
        )

    def _excluded(self, star: Json, found: JoinedTables) -> frozenset[str]:
        option = next((key for key, part in star.items() if key.startswith("opt_") and part is not None), "")
        known = all(table.columns is not None for table in found.tables)
        if option and (option not in {"opt_exclude", "opt_except"} or not known):
            self._refuse_star(star, option.removeprefix("opt_").upper())
        return _names(star)

    def _ordered(self, order: Json, select: Node, columns: MergedColumns) -> Json:
        """Return an ORDER BY with the merged columns; a key of its own means a column of the result first."""
        if not order or kind(order["kind"]) != "Expressions":
            return order
        shown = _shown(select, columns)
        distinct = body(select)["distinct"] is not None
        keys = body(order["kind"])
        hidden = {name: one for name, one in columns.items() if name not in shown}
        made = [
            self._replaced(key, hidden if distinct or kind(key["expr"]) == "Identifier" else columns) for key in keys
        ]
        same = all(one is key for one, key in zip(made, keys, strict=True))
        return order if same else {**order, "kind": {"Expressions": made}}

    def _replaced(self, value: Json, columns: MergedColumns) -> Json:
        """Return a value with merged columns in place of their names, also in its subqueries."""
        free = self._references.free(value) if columns else ()
        plain = ((node, name_of(body(node))) for node in free if kind(node) == "Identifier")
        found = {id(node): columns[name] for node, name in plain if name in columns}
        return replaced(value, found) if found else value


def _names(star: Json) -> frozenset[str]:
    """Return the names that a star leaves out."""
    option = star.get("opt_exclude") or star.get("opt_except")
    return frozenset(map(name_of, identifiers(option))) if option else frozenset()


def _shown(select: Node, columns: MergedColumns) -> set[str]:
    """Return the merged columns whose names are those of columns of a SELECT's result."""
    found: set[str] = set()
    for item in body(select)["projection"]:
        if "Wildcard" in kind(item):
            return set(columns)
        if kind(item) == "ExprWithAlias":
            found.add(name_of(body(item)["alias"]))
        elif kind(body(item)) == "Identifier":
            found.add(name_of(body(body(item))))
    return found
