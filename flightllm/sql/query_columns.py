"""The names of a query's columns, as far as its tree and the tables that it reads tell them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from flightllm.sql.nodes import Json, body, kind, name_of
from flightllm.sql.tree import text_of

TableColumns = Callable[[Sequence[str]], Sequence[str]]
"""Returns the columns of the table that the parts of a name mean; the result is empty for an unknown table."""
_Columns = list[str] | None
_LEFT_ALONE: Final = frozenset({"Semi", "LeftSemi", "Anti", "LeftAnti"})
_BOTH: Final = frozenset(
    {"Join", "Inner", "Left", "LeftOuter", "Right", "RightOuter", "FullOuter", "CrossJoin", "StraightJoin"}
)
"""Joins with the columns of both sides."""


class QueryColumns:
    """The columns of the queries of one statement."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        self._columns_of = columns_of
        self._common = _common_tables(root)
        self._reading = set[str]()

    def of(self, query: Json) -> _Columns:
        """Return the names of the columns of a query's body, or None if the tree does not tell them."""
        fields = body(query)
        match kind(query):
            case "Select":
                return self._selected(fields)
            case "SetOperation":
                return self.of(fields["left"])
            case "Query":
                return self._of_query(fields)
            case "Values":
                return [f"column{number}" for number in range(1, len(fields["rows"][0]) + 1)]
            case "Table":
                names = (fields["schema_name"], fields["table_name"])
                return self._table([str(name).lower() for name in names if name])
            case _:
                return None

    def _of_query(self, query: Json) -> _Columns:
        return None if query["pipe_operators"] else self.of(query["body"])

    def _selected(self, select: Json) -> _Columns:
        tables = self._tables(select["from"])
        if select["flavor"] == "FromFirstNoSelect":
            return _all(tables)
        found: list[str] = []
        for item in select["projection"]:
            names = self._item(item, tables)
            if names is None:
                return None
            found += names
        return found

    def _item(self, item: Json, tables: "_Tables") -> _Columns:
        fields = body(item)
        match kind(item):
            case "ExprWithAlias":
                return [name_of(fields["alias"])]
            case "UnnamedExpr":
                return [_column(fields)]
            case "Wildcard":
                return _without_excluded(_all(tables), fields)
            case "QualifiedWildcard":
                qualifier, options = fields
                if kind(qualifier) != "ObjectName":
                    return None
                wanted = name_of(body(body(qualifier)[-1]))
                found = [columns for name, columns, _ in tables or () if name == wanted]
                return _without_excluded(found[0], options) if len(found) == 1 else None
            case _:
                return None

    def _tables(self, items: Sequence[Json]) -> "_Tables":
        """Return the name and the columns of each table of a FROM, and the columns that USING merges."""
        found: list[tuple[str, _Columns, frozenset[str]]] = []
        for item in items:
            found.append((*self._factor(item["relation"]), frozenset()))
            for join in item["joins"]:
                name, columns = self._factor(join["relation"])
                merged = _merged(join["join_operator"], columns, _all(found))
                if merged is None:
                    return None
                if kind(join["join_operator"]) not in _LEFT_ALONE:
                    found.append((name, columns, merged))
        return found

    def _factor(self, factor: Json) -> tuple[str, _Columns]:
        fields = body(factor)
        alias = fields.get("alias")
        name = name_of(alias["name"]) if alias else ""
        columns: _Columns = None
        if kind(factor) == "Table":
            parts = [name_of(body(part)) for part in fields["name"]]
            name = name or parts[-1]
            columns = None if fields["args"] else self._table(parts)
        elif kind(factor) == "Derived":
            columns = self._of_query(fields["subquery"])
        elif kind(factor) == "NestedJoin":
            columns = _all(self._tables([fields["table_with_joins"]]))
        return name, _renamed(columns, alias)

    def _table(self, parts: Sequence[str]) -> _Columns:
        if len(parts) == 1 and parts[0] in self._common:
            return self._common_table(parts[0])
        return list(self._columns_of(parts)) or None

    def _common_table(self, name: str) -> _Columns:
        definition = self._common[name]
        if definition is None or name in self._reading:  # two WITH queries have the name, or one reads itself
            return None
        self._reading.add(name)
        try:
            return _renamed(self._of_query(definition["query"]), definition["alias"])
        finally:
            self._reading.remove(name)


_Tables = list[tuple[str, _Columns, frozenset[str]]] | None


def _common_tables(root: Json) -> Mapping[str, Json]:
    """Return the WITH queries of a statement by name; None for a name of several queries."""
    found: dict[str, Json] = {}
    for with_list in _withs(root):
        for table in with_list["cte_tables"]:
            name = name_of(table["alias"]["name"])
            found[name] = None if name in found else table
    return found


def _withs(root: Json) -> Iterator[Json]:
    todo = [root]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if value.get("with"):
                yield value["with"]
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


def _column(expression: Json) -> str:
    if kind(expression) == "Identifier":
        return name_of(body(expression))
    if kind(expression) == "CompoundIdentifier":
        return name_of(body(expression)[-1])
    return text_of(expression)


def _without_excluded(columns: _Columns, options: Json) -> _Columns:
    """Return the columns of a star after its EXCLUDE; None if the star has another option that changes names."""
    if columns is None or options["opt_ilike"] or options["opt_rename"]:
        return None
    excluded = {name_of(one) for one in _identifiers((options["opt_exclude"], options["opt_except"]))}
    return [column for column in columns if column not in excluded]


def _identifiers(value: Json) -> Iterator[Json]:
    if isinstance(value, dict) and "quote_style" in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _identifiers(part)


def _all(tables: _Tables) -> _Columns:
    found: list[str] = []
    for _, columns, merged in tables or ():
        if columns is None:
            return None
        found += [column for column in columns if column not in merged]
    return found or None


def _renamed(columns: _Columns, alias: Json) -> _Columns:
    names = [name_of(column["name"]) for column in alias["columns"]] if alias else []
    return names + (columns or [])[len(names) :] if names else columns


def _merged(operator: Json, columns: _Columns, before: _Columns) -> frozenset[str] | None:
    """Return the columns of a join's right side that are columns of its left side, too; None for unknown joins."""
    if operator == "CrossJoin":
        return frozenset()
    name = kind(operator)
    if name not in _BOTH and name not in _LEFT_ALONE:
        return None
    constraint = body(operator)
    if constraint == "Natural":
        return None if columns is None or before is None else frozenset(columns) & frozenset(before)
    if kind(constraint) == "Using":
        return frozenset(name_of(body(part[-1])) for part in body(constraint))
    return frozenset()
