"""The columns that a query reads from the queries around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flightllm.sql.nodes import NAMES, Json, Node, body, is_query, kind, name_of, parts, walk
from flightllm.sql.query_columns import QueryColumns


@dataclass(frozen=True)
class Scope:
    """The tables of a FROM: their names and columns; None for unknown columns."""

    tables: tuple[tuple[str, frozenset[str] | None], ...]

    def has(self, names: Sequence[str]) -> bool:
        """Return whether a column of the scope has a name, as far as its columns are known."""
        return self.table(names) is not None

    def names(self, names: Sequence[str]) -> bool:
        """Return whether the parts of a name begin with a table of the scope."""
        return len(names) > 1 and any(name in {names[-2], names[0]} for name, _ in self.tables)

    def table(self, names: Sequence[str]) -> str | None:
        """Return the table of a column, or None if no table has it."""
        for name, _ in self.tables if len(names) > 1 else ():
            if name in {names[-2], names[0]}:
                return name
        for name, columns in self.tables:
            if columns is not None and names[0] in columns:
                return name
        unknown = [name for name, columns in self.tables if columns is None]
        return unknown[0] if unknown and len(names) == 1 else None


def names_of(node: Node) -> tuple[str, ...]:
    """Return the parts of a column's name."""
    fields = body(node)
    return tuple(map(name_of, fields)) if kind(node) == "CompoundIdentifier" else (name_of(fields),)


def is_column(value: Json) -> bool:
    """Return whether a value is the name of a column."""
    return kind(value) in {"Identifier", "CompoundIdentifier"}


def outermost_queries(value: Json) -> Iterator[Json]:
    """Yield the queries inside a value that no other query inside it contains."""
    todo = list(parts(value))
    while todo:
        found = todo.pop()
        if is_query(found):
            yield found
        else:
            todo.extend(parts(found))


def names_of_with(value: Json) -> set[str]:
    """Return the names of the WITH queries in a value."""
    found, todo = set[str](), [value]
    while todo:
        part = todo.pop()
        if isinstance(part, dict) and "cte_tables" in part:
            found |= {name_of(table["alias"]["name"]) for table in part["cte_tables"]}
        todo.extend(parts(part))
    return found


def names_of_tables(value: Json) -> set[str]:
    """Return the names without a schema of the tables that the queries in a value read."""
    named = (body(node)["name"] for node in walk(value) if kind(node) == "Table" and body(node).get("name"))
    return {name_of(body(parts_of_name[0])) for parts_of_name in named if len(parts_of_name) == 1}


class References:
    """Finds the columns of outer queries in the queries of one statement."""

    def __init__(self, columns: QueryColumns) -> None:
        self._columns = columns

    def scope(self, tables: Sequence[Json]) -> Scope:
        """Return the scope of the tables of a FROM."""
        return Scope(tuple(self._tables(tables)))

    def _tables(self, tables: Sequence[Json]) -> Iterator[tuple[str, frozenset[str] | None]]:
        for item in tables:
            for relation in (item["relation"], *(join["relation"] for join in item["joins"])):
                if kind(relation) == "NestedJoin" and not body(relation)["alias"]:
                    yield from self._tables([body(relation)["table_with_joins"]])
                else:
                    name, columns = self._columns.table(relation)
                    yield name, None if columns is None else frozenset(columns)

    def free(self, value: Json) -> list[Node]:
        """Return the columns in a value that no query inside the value has."""
        return [node for node, scopes in self._walk(value) if not _have(scopes, names_of(node))]

    def inside(self, value: Json, scope: Scope) -> list[Node]:
        """Return the columns in a value that belong to a scope around it.

        `dept.dept` is a column of the table `dept` around a query whose own table has a column `dept`, too.
        """
        return [
            node
            for node, scopes in self._walk(value)
            if scope.has(names_of(node)) and (_is_hidden(node, scopes, scope) or not _have(scopes, names_of(node)))
        ]

    def hides(self, value: Json, scope: Scope) -> bool:
        """Return whether a query in a value has a column with the name of a table around it that the value names."""
        return any(_is_hidden(node, scopes, scope) for node, scopes in self._walk(value))

    def _walk(self, value: Json) -> Iterator[tuple[Node, tuple[Scope, ...]]]:
        todo: list[tuple[Json, tuple[Scope, ...]]] = [(value, ())]
        while todo:
            found, scopes = todo.pop()
            if is_column(found):
                yield found, scopes
            elif is_query(found):
                todo.extend(self._of_query(found, scopes))
            elif kind(found) == "Select":
                todo.extend(self._of_select(body(found), scopes))
            elif isinstance(found, dict):
                todo.extend((part, scopes) for key, part in found.items() if key not in NAMES and _nodes(part))
            elif isinstance(found, list | tuple):
                todo.extend((part, scopes) for part in found if _nodes(part))

    def _of_query(self, query: Json, scopes: tuple[Scope, ...]) -> Iterator[tuple[Json, tuple[Scope, ...]]]:
        if query["with"]:
            yield from ((table["query"], scopes) for table in query["with"]["cte_tables"])
        yield query["body"], scopes
        if query["order_by"] and kind(query["body"]) == "Select":
            select = body(query["body"])
            yield query["order_by"], (*scopes, _outputs(select), self.scope(select["from"]))
        yield {"limit": (query["limit_clause"], query["fetch"])[0]}, scopes

    def _of_select(self, select: Json, scopes: tuple[Scope, ...]) -> Iterator[tuple[Json, tuple[Scope, ...]]]:
        inner = (*scopes, self.scope(select["from"]))
        for key, part in select.items():
            if key == "from":
                yield from self._of_tables(part, scopes, inner)
            elif _nodes(part):
                yield part, (*inner, _outputs(select)) if key == "group_by" else inner

    def _of_tables(
        self, tables: Sequence[Json], scopes: tuple[Scope, ...], inner: tuple[Scope, ...]
    ) -> Iterator[tuple[Json, tuple[Scope, ...]]]:
        for item in tables:
            for join in item["joins"]:
                yield join["join_operator"], inner
            for relation in (item["relation"], *(join["relation"] for join in item["joins"])):
                if kind(relation) == "NestedJoin":
                    yield from self._of_tables([body(relation)["table_with_joins"]], scopes, inner)
                elif kind(relation) == "Derived" and not body(relation)["lateral"]:
                    yield body(relation)["subquery"], scopes
                else:
                    yield body(relation), inner


def _have(scopes: Sequence[Scope], names: Sequence[str]) -> bool:
    return any(scope.has(names) for scope in scopes)


def _is_hidden(node: Node, scopes: Sequence[Scope], outer: Scope) -> bool:
    names = names_of(node)
    return outer.names(names) and not any(scope.names(names) for scope in scopes) and _have(scopes, names)


def _outputs(select: Json) -> Scope:
    """Return the names that a SELECT gives to its columns, which GROUP BY and ORDER BY can use."""
    aliases = (body(item)["alias"] for item in select["projection"] if kind(item) == "ExprWithAlias")
    return Scope((("", frozenset(map(name_of, aliases))),))


def _nodes(part: Json) -> bool:
    return isinstance(part, dict | list | tuple)
