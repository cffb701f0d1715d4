"""Read the name of a table as a struct of its columns, as in `SELECT r FROM reviews AS r`."""

from collections.abc import Mapping, Sequence

from flightllm.errors import UnsupportedError
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import (
    Json,
    Node,
    body,
    factors,
    is_query,
    kind,
    name_of,
    new_identifier,
    rebuilt,
    replaced,
    walk,
)
from flightllm.sql.passes.whole_rows import lacking_rows
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.references import References
from flightllm.sql.tree import Tree, written

_CLAUSES = ("selection", "having", "group_by", "qualify")
_Rows = Mapping[str, Node | str]
"""The struct of each table by its name, or its first column if an outer join can lack its row."""


def table_rows(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT r FROM t AS r` as `SELECT {'a': r.a, 'b': r.b} AS r FROM t AS r`.

    A column of this name comes first. A table whose columns are unknown stays. A row that an outer join lacks has NULL
    in each column, as in DuckDB.
    """
    return _written(tree, columns_of, lacks_rows=True)


def present_rows(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite as `table_rows`, for dialects in which a row that an outer join lacks is NULL.

    Raises:
        UnsupportedError: an outer join can lack a row that a name means.
    """
    return _written(tree, columns_of, lacks_rows=False)


def _written(tree: Tree, columns_of: TableColumns, *, lacks_rows: bool) -> Tree:
    writer = _Writer(QueryColumns(tree.root, columns_of), lacks_rows=lacks_rows)
    root = rebuilt(tree.root, writer.changed, lambda value: is_query(value) or kind(value) == "SetOperation")
    return tree if root is tree.root else Tree(tree.sql, root)


class _Writer:
    """Writes the queries of one statement."""

    def __init__(self, columns: QueryColumns, *, lacks_rows: bool) -> None:
        self._columns = columns
        self._lacks_rows = lacks_rows
        self._references = References(columns)

    def changed(self, value: Json) -> Json:
        """Return a query or a set operation with its rows as structs."""
        if is_query(value):
            if kind(value["body"]) != "Select":
                return value
            rows = self._rows(body(value["body"])["from"])
            select = self._select(value["body"], rows)
            order = self._replaced(value["order_by"], _unnamed(value["body"], rows)) if rows else value["order_by"]
            same = select is value["body"] and order is value["order_by"]
            return value if same else {**value, "body": select, "order_by": order}
        fields = body(value)
        sides = {
            key: self._select(fields[key], self._rows(body(fields[key])["from"]))
            for key in ("left", "right")
            if kind(fields[key]) == "Select"
        }
        same = all(fields[key] is side for key, side in sides.items())
        return value if same else {"SetOperation": {**fields, **sides}}

    def _rows(self, items: Sequence[Json]) -> _Rows:
        """Return the struct of each table of a FROM by its name; empty if the columns of a table are unknown."""
        tables = [self._columns.table(factor) for factor in factors(items)]
        if any(columns is None for _, columns in tables):
            return {}
        every = {column for _, columns in tables for column in columns or ()}
        lacking = set[str]() if self._lacks_rows else {name for item in items for name in lacking_rows(item)}
        return {
            name: columns[0] if name in lacking else _struct(name, columns)
            for name, columns in tables
            if name and columns and name not in every
        }

    def _select(self, select: Node, rows: _Rows) -> Node:
        fields = body(select)
        if not rows:
            return select
        others = _unnamed(select, rows)
        made = {clause: self._replaced(fields[clause], others) for clause in _CLAUSES}
        made["projection"] = [self._item(item, rows) for item in fields["projection"]]
        pairs = zip(made["projection"], fields["projection"], strict=True)
        same = all(one is item for one, item in pairs) and all(made[clause] is fields[clause] for clause in _CLAUSES)
        return select if same else {"Select": {**fields, **made}}

    def _item(self, item: Json, rows: _Rows) -> Json:
        column = body(item) if kind(item) == "UnnamedExpr" else None
        if column is not None and kind(column) == "Identifier" and (name := name_of(body(column))) in rows:
            return {"ExprWithAlias": {"expr": _row(rows, name), "alias": new_identifier(name)}}
        return self._replaced(item, rows)

    def _replaced(self, value: Json, rows: _Rows) -> Json:
        free = self._references.free(value) if value and rows else ()
        stars = {id(part) for node in free and walk(value) if "Wildcard" in kind(node) for part in walk(body(node))}
        plain = ((node, name_of(body(node))) for node in free if kind(node) == "Identifier" and id(node) not in stars)
        found = {id(node): _row(rows, name) for node, name in plain if name in rows}
        return replaced(value, found) if found else value


def _row(rows: _Rows, name: str) -> Node:
    """Return the struct of a table.

    Raises:
        UnsupportedError: an outer join can lack its row.
    """
    row = rows[name]
    if isinstance(row, str):
        column = f"{name}.{row}"
        raise UnsupportedError(
            f"an outer join can lack a row of {name}: write its column, as in count({column}), or CASE WHEN {column} IS"
            f" NOT NULL THEN named_struct({text_literal(row)}, {column}) END"
        )
    return row


def _unnamed(select: Node, rows: _Rows) -> _Rows:
    """Return the rows without an alias of this name in a SELECT: other clauses can read its results."""
    items = body(select)["projection"]
    aliases = {name_of(body(item)["alias"]) for item in items if kind(item) == "ExprWithAlias"}
    return {name: row for name, row in rows.items() if name not in aliases}


def _struct(name: str, columns: Sequence[str]) -> Node:
    named = {f"v{place}": _column(name, column) for place, column in enumerate(columns)}
    fields = ", ".join(f"{text_literal(column)}, v{place}" for place, column in enumerate(columns))
    made: Node = written(f"named_struct({fields})", **named)
    return made


def _column(table: str, name: str) -> Node:
    return {"CompoundIdentifier": [new_identifier(table), new_identifier(name)]}
