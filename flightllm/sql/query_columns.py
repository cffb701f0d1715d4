"""The columns of a statement's queries with their types, as far as its tree and the tables that it reads tell them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.sql.element_rows import SERIES, element_rows, names_series_column
from flightllm.sql.joins import join_kind, merged_names
from flightllm.sql.nodes import Json, body, is_query, kind, name_of, parts
from flightllm.sql.tree import text_of

Type: TypeAlias = pa.DataType | None
"""The type of an expression; None if it is unknown."""
TableColumns = Callable[[Sequence[str]], Mapping[str, pa.DataType]]
"""Returns the columns of the table that the parts of a name mean; the result is empty for an unknown table."""


@dataclass(frozen=True, slots=True)
class Known:
    """A session's tables, views and functions by name. It returns the columns of a table as any `TableColumns`.

    `view_of` returns the query of the view that the parts of a name mean, or "". `own_functions` are the lower-case
    names of the functions in the configuration's folders; each of them can ask a model. `parameters` are the types of
    the bound values by their placeholders.
    """

    columns_of: TableColumns
    view_of: Callable[[Sequence[str]], str] = lambda _: ""
    own_functions: frozenset[str] = frozenset()
    parameters: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __call__(self, parts: Sequence[str]) -> Mapping[str, pa.DataType]:
        """Return the columns of a table."""
        return self.columns_of(parts)


def own_functions(tables: TableColumns) -> frozenset[str]:
    """Return the names of a session's own functions; empty if only its tables are known."""
    return tables.own_functions if isinstance(tables, Known) else frozenset()


class Column(NamedTuple):
    """One column of a query or a table."""

    name: str
    type: Type = None


Columns = list[Column] | None
"""The columns of a query; None if the tree does not tell them."""


@dataclass(frozen=True)
class _Table:
    """One table of a FROM; `merged` are its columns that USING merges into those of an earlier table."""

    name: str
    columns: Columns
    merged: Sequence[str] = ()

    @cached_property
    def types(self) -> Mapping[str, Sequence[Type]]:
        """Return the types of the columns of each name."""
        found: dict[str, list[Type]] = {}
        for column in self.columns or ():
            found.setdefault(column.name, []).append(column.type)
        return found


_Tables = list[_Table] | None
_Scope = tuple[Sequence[_Table], ...]
"""The tables that an expression can name: those of its own query first, then those of the queries around it."""


class QueryColumns:
    """The columns of the queries of one statement. `type_of` tells the type of an expression below a SELECT."""

    def __init__(self, root: Json, columns_of: TableColumns, type_of: Callable[[Json], Type] | None = None) -> None:
        self._root = root
        self._columns_of = columns_of
        self._type_of = type_of
        self._common = _common_tables(root)
        self._reading = dict[int, Columns]()
        self._read = dict[int, tuple[Json, Columns]]()
        """The columns of each query by its identity; the query stays alive, so no other object has its identity."""
        self._scopes = dict[int, _Scope]()
        """The scope of the body of each query, for its ORDER BY."""
        self._named = dict[int, tuple[Json, Type]]()

    def read(self, root: Json) -> None:
        """Find the types of the columns that the expressions of the statement name."""
        self._expressions(root, (list(self._changed(root)),))

    def of(self, query: Json) -> Columns:
        """Return the columns of a query's body."""
        return self._body(query, ())

    def table(self, factor: Json) -> tuple[str, list[str] | None]:
        """Return the name of a table, a query or joins in parentheses of a FROM, and the names of its columns.

        The columns are None if they are unknown.
        """
        found = self._factor(factor, (), ())
        return found.name, _names(found.columns)

    def table_columns(self, factor: Json) -> Columns:
        """Return the columns of a table, a query or joins in parentheses of a FROM."""
        return self._factor(factor, (), ()).columns

    def common(self, table: Json) -> Json:
        """Return the query of WITH that a table means, or None."""
        fields = body(table)
        found = self._definition(fields, [name_of(body(part)) for part in fields["name"]])
        return found["query"] if found is not None else None

    def common_as_is(self, table: Json) -> Json:
        """Return the query of WITH that a table means, or None; also None if WITH gives names to its columns."""
        fields = body(table)
        found = self._definition(fields, [name_of(body(part)) for part in fields["name"]])
        return found["query"] if found is not None and not found["alias"]["columns"] else None

    def named(self, identifier: Json) -> Type:
        """Return the type of the column that a node names; see `nodes.kind` Identifier and CompoundIdentifier."""
        found = self._named.get(id(identifier))
        return found[1] if found is not None else None

    # --- queries

    def _body(self, query: Json, outer: _Scope) -> Columns:
        fields = body(query)
        match kind(query):
            case "Select":
                return self._selected(fields, outer)
            case "SetOperation":
                return self._set_operation(query, outer)
            case "Query":
                return self._query(fields, outer)
            case "Values":
                self._expressions(fields["rows"], outer)
                rows = fields["rows"]
                return [
                    Column(f"column{number}", self._common_type([row[number - 1] for row in rows]))
                    for number in range(1, len(rows[0]) + 1)
                ]
            case "Table":
                names = (fields["schema_name"], fields["table_name"])
                return self._table(fields, [str(name).lower() for name in names if name])
            case _:
                return None

    def _set_operation(self, query: Json, outer: _Scope) -> Columns:
        """Return the columns of a set operation; in a chain of them, each is read once."""
        known = self._read.get(id(query))
        if known is not None:
            return known[1]
        fields = body(query)
        found = _both(self._body(fields["left"], outer), self._body(fields["right"], outer))
        self._read[id(query)] = query, found
        return found

    def _query(self, query: Json, outer: _Scope) -> Columns:
        known = self._read.get(id(query))
        if known is not None:
            return known[1]
        for table in (query["with"] or {}).get("cte_tables", ()):
            self._common_table(table)
            self._query(table["query"], outer)
        columns = self._body(query["body"], outer)
        if self._type_of is not None:
            self._ordered(query, columns or [], outer)
        found = None if query["pipe_operators"] else columns
        self._read[id(query)] = query, found
        return found

    def _ordered(self, query: Json, columns: list[Column], outer: _Scope) -> None:
        """Read the keys of ORDER BY: a mere name means a column of the result first."""
        result = [_Table("", columns)]
        inner = self._scopes.get(id(body(query["body"])), outer)
        for key in _keys(query["order_by"]):
            first = kind(key["expr"]) == "Identifier"
            self._expressions(key, (result, *inner) if first else (*inner, result))

    def _selected(self, select: Json, outer: _Scope) -> Columns:
        tables = self._tables(select["from"], outer)
        scope: _Scope = (tables or [_Table("", None)] if select["from"] else [], *outer)
        if select["flavor"] == "FromFirstNoSelect":
            return _all(tables)
        self._expressions(select["projection"], scope)
        found: Columns = []
        for item in select["projection"]:
            columns = self._item(item, tables)
            found = None if columns is None or found is None else found + columns
        if self._type_of is not None:
            scope = (*scope[:1], [_Table("", found or [])], *outer)
            self._expressions({key: part for key, part in select.items() if key not in {"from", "projection"}}, scope)
            self._scopes[id(select)] = scope
        return found

    def _item(self, item: Json, tables: _Tables) -> Columns:
        fields = body(item)
        match kind(item):
            case "ExprWithAlias":
                return [Column(name_of(fields["alias"]), self._type(fields["expr"]))]
            case "UnnamedExpr":
                return [Column(_name(fields), self._type(fields))]
            case "Wildcard":
                return _without_excluded(_all(tables), fields)
            case "QualifiedWildcard":
                qualifier, options = fields
                if kind(qualifier) != "ObjectName":
                    return None
                wanted = name_of(body(body(qualifier)[-1]))
                found = [table.columns for table in tables or () if table.name == wanted]
                return _without_excluded(found[0], options) if len(found) == 1 else None
            case _:
                return None

    # --- tables

    def _tables(self, items: Sequence[Json], outer: _Scope) -> _Tables:
        """Return the tables of a FROM."""
        found: list[_Table] = []
        for item in items:
            found.append(self._factor(item["relation"], found, outer))
            for join in item["joins"]:
                right = self._factor(join["relation"], found, outer)
                how = join_kind(join)
                names = _names(_all(found)), _names(right.columns)
                merged = merged_names(join, *names) if how is not None and how.left else None
                self._expressions(join["join_operator"], ([*found, right], *outer))
                if merged is None:
                    return None
                if how is not None and how.right:
                    found.append(_Table(right.name, right.columns, merged))
        return found

    def _factor(self, factor: Json, before: Sequence[_Table], outer: _Scope) -> _Table:
        fields = body(factor)
        alias = fields.get("alias")
        name = name_of(alias["name"]) if alias else ""
        columns: Columns = None
        if kind(factor) == "Table":
            names = [name_of(body(part)) for part in fields["name"]]
            name = name or names[-1]
            columns = self._elements(factor, before, outer) if fields["args"] else self._table(fields, names)
        elif kind(factor) == "Derived":
            columns = self._query(fields["subquery"], (list(before), *outer) if fields["lateral"] else outer)
        elif kind(factor) == "NestedJoin":
            columns = _all(self._tables([fields["table_with_joins"]], outer))
        else:
            name = name or name_of(body(fields["name"][-1])) if "name" in fields else name or "unnest"
            columns = self._elements(factor, before, outer)
        return _Table(name, _renamed(columns, alias))

    def _elements(self, factor: Json, before: Sequence[_Table], outer: _Scope) -> Columns:
        """Return the columns of a function in FROM whose rows are the elements of lists; None for other functions."""
        fields = body(factor)
        self._expressions([fields.get(key) for key in ("args", "array_exprs")], (list(before), *outer))
        call = element_rows(factor)
        if call is None or (call.name in SERIES and names_series_column(self._root)):
            return None
        lists = [self._type(one) for one in call.lists]
        types = [one.value_type if one is not None and pa.types.is_list(one) else None for one in lists]
        return [*map(Column, call.names, [*types, *([pa.int64()] if call.numbered else [])])]

    def _table(self, fields: Json, names: Sequence[str]) -> Columns:
        definition = self._definition(fields, names)
        if definition is not None:
            return self._common_table(definition)
        return [Column(*one) for one in self._columns_of(names).items()] or None

    def _definition(self, fields: Json, names: Sequence[str]) -> Json:
        known = self._common.get(id(fields))
        return known[1] if known is not None else (self._named_alike(names[0]) if len(names) == 1 else None)

    def _named_alike(self, name: str) -> Json:
        """Return the only WITH query of a name, also for a table that a pass has written; otherwise None."""
        named = (one for _, one in self._common.values() if one is not None and name_of(one["alias"]["name"]) == name)
        found = list({id(one): one for one in named}.values())
        return found[0] if len(found) == 1 else None

    def _common_table(self, definition: Json) -> Columns:
        if id(definition) in self._reading:  # it reads itself, and has the columns of the rows that it begins with
            return self._reading[id(definition)]
        self._reading[id(definition)] = None
        try:
            query, alias = definition["query"], definition["alias"]
            if self._type_of is not None and kind(query["body"]) == "SetOperation":
                self._reading[id(definition)] = _renamed(self._body(body(query["body"])["left"], ()), alias)
            return _renamed(self._query(query, ()), alias)
        finally:
            del self._reading[id(definition)]

    def _changed(self, root: Json) -> Iterator[_Table]:
        """Yield the tables outside all queries of a statement that changes rows."""
        todo = [root]
        while todo:
            found = todo.pop()
            if is_query(found):
                continue
            if kind(found) in {"Table", "Derived"} and "alias" in body(found):
                yield self._factor(found, (), ())
            elif kind(found) == "TableName" and isinstance(body(found), list):
                columns = self._table(found, [name_of(body(part)) for part in body(found)])
                yield _Table(name_of(body(body(found)[-1])), columns)
            else:
                todo.extend(parts(found))

    # --- expressions

    def _expressions(self, value: Json, scope: _Scope) -> None:
        """Find the columns that the expressions of a value name, and read the queries in them."""
        if self._type_of is None:
            return
        todo = [value]
        while todo:
            found = todo.pop()
            if is_query(found):
                self._query(found, scope)
                continue
            if kind(found) in {"Identifier", "CompoundIdentifier"}:
                self._named.setdefault(id(found), (found, _column_type(found, scope)))
            todo.extend(parts(found))

    def _type(self, expression: Json) -> Type:
        return None if self._type_of is None else self._type_of(expression)

    def _common_type(self, expressions: Sequence[Json]) -> Type:
        types = [self._type(one) for one in expressions]
        return common_type(types)


def common_type(types: Sequence[Type]) -> Type:
    """Return the type of a value that is one of several, as in CASE; None if a type is unknown or they do not fit."""
    known = {one for one in types if one is not None and not pa.types.is_null(one)}
    if any(map(pa.types.is_interval, known)):  # all the others are intervals, too, or else the text is an error
        return pa.month_day_nano_interval()
    if None in types or not known:
        return None if None in types or not types else pa.null()
    typed = {one for one in known if not pa.types.is_string(one)}  # a literal takes the type of the other values
    if len(typed) < 2:
        return next(iter(typed or known))
    if all(pa.types.is_floating(one) or pa.types.is_integer(one) or pa.types.is_decimal(one) for one in typed):
        return _number(typed)
    if all(pa.types.is_date(one) or pa.types.is_timestamp(one) for one in typed):
        return max((one for one in typed if pa.types.is_timestamp(one)), key=lambda one: one.tz is not None)
    return None


def _number(types: set[pa.DataType]) -> pa.DataType:
    for test in (pa.types.is_floating, pa.types.is_decimal):
        if found := [one for one in types if test(one)]:
            return max(found, key=lambda one: one.bit_width)
    return max(types, key=lambda one: one.bit_width)


def _both(left: Columns, right: Columns) -> Columns:
    """Return the columns of a set operation: the names are those of its left side."""
    if left is None or right is None or len(left) != len(right):
        return left
    return [Column(one.name, common_type((one.type, two.type))) for one, two in zip(left, right, strict=True)]


def _column_type(identifier: Json, scope: _Scope) -> Type:
    """Return the type of the innermost column that an identifier can mean."""
    names = body(identifier) if kind(identifier) == "CompoundIdentifier" else [body(identifier)]
    name, qualifier = name_of(names[-1]), name_of(names[-2]) if len(names) > 1 else None
    for tables in scope:
        wanted = [table for table in tables if qualifier in {None, table.name}]
        found = [one for table in wanted for one in table.types.get(name, ())]
        if found:
            return found[0] if len(set(found)) == 1 else common_type(found)
        if any(table.columns is None for table in wanted):
            return None
    return None


def _keys(order_by: Json) -> Sequence[Json]:
    given = order_by["kind"] if order_by else {}
    return body(given) if kind(given) == "Expressions" else ()


def _common_tables(root: Json) -> Mapping[int, tuple[Json, Json]]:
    """Return the fields of each table, and its definition if it is a WITH query, by the identity of the fields.

    The innermost WITH query of a name hides the others, and it hides a table of the catalog.
    """
    found: dict[int, tuple[Json, Json]] = {}
    todo: list[tuple[Json, Mapping[str, Json]]] = [(root, {})]
    while todo:
        value, visible = todo.pop()
        if isinstance(value, dict) and value.get("with"):
            for table in value["with"]["cte_tables"]:
                after = {**visible, name_of(table["alias"]["name"]): table}
                todo.append((table["query"], after if value["with"]["recursive"] else visible))
                visible = after
            value = {key: part for key, part in value.items() if key != "with"}
        elif kind(value) == "Table":
            fields = body(value)
            names = [name_of(body(part)) for part in fields.get("name", ())] or [str(fields["table_name"]).lower()]
            found[id(fields)] = fields, visible.get(names[0]) if len(names) == 1 else None
        todo.extend((part, visible) for part in parts(value))
    return found


def _name(expression: Json) -> str:
    if kind(expression) == "Identifier":
        return name_of(body(expression))
    if kind(expression) == "CompoundIdentifier":
        return name_of(body(expression)[-1])
    return text_of(expression)


def _without_excluded(columns: Columns, options: Json) -> Columns:
    """Return the columns of a star after its EXCLUDE; None if the star has another option that changes names."""
    if columns is None or options["opt_ilike"] or options["opt_rename"]:
        return None
    excluded = {name_of(one) for one in identifiers((options["opt_exclude"], options["opt_except"]))}
    return [column for column in columns if column.name not in excluded]


def identifiers(value: Json) -> Iterator[Json]:
    """Yield the identifiers in a part of a tree."""
    if isinstance(value, dict) and "quote_style" in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from identifiers(part)


def _all(tables: _Tables) -> Columns:
    """Return the columns of a star: merged columns come first, and those of the last join before others."""
    found: list[Column] = []
    for table in tables or ():
        if table.columns is None:
            return None
        found += [column for column in table.columns if column.name not in table.merged]
    merged = list(dict.fromkeys(name for table in reversed(tables or ()) for name in table.merged))
    first = [column for name in merged for column in found if column.name == name]
    return [*first, *(column for column in found if column.name not in merged)] or None


def _names(columns: Columns) -> list[str] | None:
    return None if columns is None else [column.name for column in columns]


def _renamed(columns: Columns, alias: Json) -> Columns:
    names = [name_of(column["name"]) for column in alias["columns"]] if alias else []
    if not names:
        return columns
    types = [column.type for column in columns or ()] + [None] * len(names)
    return [*map(Column, names, types), *(columns or [])[len(names) :]]
