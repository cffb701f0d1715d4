"""Tables that are read twice, for their rows and for their keys: both times must find the same rows.

LIMIT without ORDER BY takes the rows that come first, and their order differs from run to run.
"""

from collections.abc import Callable, Sequence
from typing import Final

from flightllm.sql.joins import INNER, join_kind
from flightllm.sql.nodes import Json, Node, body, is_query, kind, parts, walk
from flightllm.sql.passes.subqueries.shapes import is_limited, is_single
from flightllm.sql.types import function_name

_NUMBERS: Final = frozenset({"row_number", "first_value", "last_value", "nth_value", "lag", "lead", "ntile"})
"""Window functions whose values depend on the order of all rows."""


def steady(tables: Sequence[Json], common: Callable[[Json], Json]) -> list[Json] | None:
    """Return tables of a FROM that have all the rows of the given ones at each time; None if there are no such tables.

    A query that only its LIMIT makes unsteady goes without the LIMIT. `common` returns the query of WITH that a
    table means, or None.
    """
    found = list[Json]()
    for table in tables:
        relations = [table["relation"], *(join["relation"] for join in table["joins"])]
        inner = all(join_kind(join) == INNER for join in table["joins"])
        after = [_without_limit(one) if inner else one for one in relations]
        if any(map(_is_unsteady, [*after, *queries_of_with(after, common)])):
            return None
        if all(new is old for new, old in zip(after, relations, strict=True)):
            found.append(table)
        else:
            joins = [{**join, "relation": one} for join, one in zip(table["joins"], after[1:], strict=True)]
            found.append({**table, "relation": after[0], "joins": joins})
    return found


def _without_limit(relation: Json) -> Json:
    if kind(relation) != "Derived":
        return relation
    fields = body(relation)
    query = fields["subquery"]
    if not _is_unordered(query):
        return relation
    return {"Derived": {**fields, "subquery": {**query, "limit_clause": None, "fetch": None}}}


def queries_of_with(tables: Sequence[Json], common: Callable[[Json], Json]) -> list[Json]:
    """Return the queries of WITH that tables of a FROM read, also through each other."""
    found, seen, todo = list[Json](), set[int](), list[Json](tables)
    while todo:
        part = todo.pop()
        if kind(part) == "Table" and "name" in body(part):
            query = common(part)
            if query is not None and id(query) not in seen:
                seen.add(id(query))
                found.append(query)
                todo.append(query)
        todo.extend(parts(part))
    return found


def _is_unsteady(value: Json) -> bool:
    """Return whether a value has a query whose rows can differ from run to run."""
    todo = [value]
    while todo:
        found = todo.pop()
        if is_query(found) and (_is_unordered(found) or _chooses(found)):
            return True
        if kind(found) == "Function" and _is_unordered_window(body(found)):
            return True
        todo.extend(parts(found))
    return False


def _is_unordered(query: Json) -> bool:
    """Return whether a query takes some of its rows, without an order that tells which ones."""
    one_row = kind(query["body"]) == "Select" and is_single(body(query["body"]))
    return is_limited(query) and not query["order_by"] and not one_row


def _chooses(query: Json) -> bool:
    select: Node = body(query["body"]) if kind(query["body"]) == "Select" else {}
    return kind(select.get("distinct")) == "On" and not query["order_by"]


def _is_unordered_window(function: Json) -> bool:
    """Return whether a function numbers rows without an order, in a window of its own."""
    if "over" not in function or function_name(function) not in _NUMBERS:
        return False
    specs = (body(node) for node in walk(function["over"]) if kind(node) == "WindowSpec")
    return any(not spec["window_name"] and not spec["order_by"] for spec in specs)
