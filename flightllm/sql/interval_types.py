"""Tell which expressions of a statement are intervals, as far as the text says."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.sql.nodes import Json, body, kind, name_of, unnested, walk
from flightllm.sql.query_columns import TableColumns

_DEEPEST: Final = 100
"""How deep an expression is read; an interval below is not found."""
_LIKE_ARGUMENTS: Final = frozenset(
    {
        *("coalesce", "nvl", "nullif", "greatest", "least", "min", "max", "sum", "avg", "first_value", "last_value"),
        *("any_value", "lag", "lead", "nth_value"),
    }
)
"""Functions that return intervals for intervals."""


class IntervalTypes:
    """The intervals of one statement: literals, casts, what is computed from these, and columns with such values.

    A name counts as an interval if the statement gives it to intervals only, and no table has a column of the name.
    """

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        self._names = frozenset[str]()
        given = defaultdict[str, list[Json]](list)
        for name, expression in _definitions(root):
            given[name].append(expression)
        for name in _table_columns(root, columns_of):
            given.pop(name, None)
        while True:
            found = {name for name, values in given.items() if all(map(self.is_interval, values))}
            if found == self._names:
                return
            self._names = frozenset(found)

    def is_interval(self, expression: Json, depth: int = _DEEPEST) -> bool:
        """Return whether an expression is surely an interval, and no time between two timestamps."""
        expression = unnested(expression)
        name = kind(expression)
        if name in {"Identifier", "CompoundIdentifier"}:
            parts = body(expression)
            return name_of(parts if name == "Identifier" else parts[-1]) in self._names
        if name in {"Interval", "Cast"}:
            return name == "Interval" or kind(body(expression)["data_type"]) == "Interval"
        if depth == 0 or not name:
            return False
        if name == "BinaryOp":
            return self._is_computed(body(expression), depth - 1)
        return any(self.is_interval(value, depth - 1) for value in _values(name, body(expression)))

    def _is_computed(self, fields: Json, depth: int) -> bool:
        left, right = (self.is_interval(fields[side], depth) for side in ("left", "right"))
        match fields["op"]:
            case "Plus":
                return left and right  # the sum with a timestamp is a timestamp
            case "Minus":
                return left
            case "Multiply" | "Divide":
                return left or right
            case _:
                return False


def _values(name: str, fields: Json) -> Sequence[Json]:
    """Return the expressions of which each gives a node's own type."""
    match name:
        case "UnaryOp":
            return (fields["expr"],)
        case "Case":
            return (*(one["result"] for one in fields["conditions"]), fields["else_result"])
        case "Function":
            return arguments(fields) if function_name(fields) in _LIKE_ARGUMENTS else ()
        case "Subquery":
            items = expressions_of(fields["body"])
            return items if len(items) == 1 else ()
        case _:
            return ()


def function_name(function: Json) -> str:
    """Return the name of a function that a node calls, in lower case."""
    last = function["name"][-1]
    return name_of(body(last)) if kind(last) == "Identifier" else ""


def arguments(function: Json) -> list[Json]:
    """Return the expressions among the arguments of a function without names."""
    if kind(function["args"]) != "List":
        return []
    given = (body(one) for one in body(function["args"])["args"] if kind(one) == "Unnamed")
    return [body(one) for one in given if kind(one) == "Expr"]


def expressions_of(query: Json) -> list[Json]:
    """Return the expression of each column of a query's body; empty if the body has a star."""
    fields = body(query)
    match kind(query):
        case "Select":
            items = fields["projection"]
            found = [_expression(item) for item in items if kind(item) in {"UnnamedExpr", "ExprWithAlias"}]
            return found if len(found) == len(items) else []
        case "SetOperation":
            return expressions_of(fields["left"])
        case "Query":
            return expressions_of(fields["body"])
        case "Values":
            return list(fields["rows"][0])
        case _:
            return []


def _expression(item: Json) -> Json:
    return body(item)["expr"] if kind(item) == "ExprWithAlias" else body(item)


def _definitions(root: Json) -> Iterator[tuple[str, Json]]:
    """Yield each name that a statement gives to an expression: aliases, and lists of columns after a query."""
    for node in walk(root):
        if kind(node) == "ExprWithAlias":
            yield name_of(body(node)["alias"]), body(node)["expr"]
        elif kind(node) == "Derived" and body(node)["alias"]:
            yield from _listed(body(node)["alias"], body(node)["subquery"])
    for table in _common_tables(root):
        yield from _listed(table["alias"], table["query"])


def _listed(alias: Json, query: Json) -> Iterator[tuple[str, Json]]:
    names = [name_of(column["name"]) for column in alias["columns"]]
    return zip(names, expressions_of(query["body"]), strict=False)


def _common_tables(root: Json) -> Iterator[Json]:
    todo = [root]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield from value.get("cte_tables") or ()
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


def _table_columns(root: Json, columns_of: TableColumns) -> Iterator[str]:
    own = {name_of(table["alias"]["name"]) for table in _common_tables(root)}
    for node in walk(root):
        if kind(node) == "Table" and "name" in body(node):
            parts = [name_of(body(part)) for part in body(node)["name"]]
            if len(parts) > 1 or parts[0] not in own:
                yield from columns_of(parts)
