"""Tables that are read twice, for their rows and for their keys: the keys must be those of all the rows.

LIMIT takes the rows that come first. Without ORDER BY, their order differs from run to run; with ORDER BY, that of
equal rows does.
"""

from collections.abc import Callable, Sequence
from typing import Final

from flightllm.sql.joins import INNER, join_kind
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, parts, replaced, walk
from flightllm.sql.passes.subqueries.items import by_name, derived
from flightllm.sql.select_shapes import is_limited, is_single
from flightllm.sql.tree import written
from flightllm.sql.types import function_name

_NUMBERS: Final = frozenset({"row_number", "first_value", "last_value", "nth_value", "lag", "lead", "ntile"})
"""Window functions whose values depend on the order of all rows."""


def steady(
    tables: Sequence[Json], common: Callable[[Json], Json], of_with: Callable[[Json], Json]
) -> list[Json] | None:
    """Return tables of a FROM that have all the rows of the given ones at each time; None if there are no such tables.

    A query that only its LIMIT makes unsteady has more rows. `common` returns the query of WITH or the view
    that a table means, or None; `of_with` only that of WITH, and only if WITH does not list its columns.
    """
    found = list[Json]()
    for table in tables:
        relations = [table["relation"], *(join["relation"] for join in table["joins"])]
        inner = all(join_kind(join) == INNER for join in table["joins"])
        after = [_with_more_rows(one, of_with) if inner else one for one in relations]
        if any(map(_is_unsteady, [*after, *queries_of_with(after, common)])):
            return None
        if all(new is old for new, old in zip(after, relations, strict=True)):
            found.append(table)
        else:
            joins = [{**join, "relation": one} for join, one in zip(table["joins"], after[1:], strict=True)]
            found.append({**table, "relation": after[0], "joins": joins})
    return found


def _with_more_rows(relation: Json, of_with: Callable[[Json], Json]) -> Json:
    """Return a table of FROM that surely has the rows that LIMIT takes from the given one."""
    if kind(relation) == "Derived":
        query = body(relation)["subquery"]
        more = _more_rows(query)
        return relation if more is query else {"Derived": {**body(relation), "subquery": more}}
    query = of_with(relation) if kind(relation) == "Table" and not body(relation)["args"] else None
    more = _more_rows(query) if query is not None and query["order_by"] else query
    if more is query:
        return relation
    alias = body(relation)["alias"] or derived(query, name_of(body(body(relation)["name"][-1])))["Derived"]["alias"]
    return {"Derived": {**body(derived(more, "")), "alias": alias}}


def _more_rows(query: Json) -> Json:
    """Return a query without a LIMIT that has no order, or with all rows that equal the last one in its order."""
    if _is_unordered(query):
        return {**query, "limit_clause": None, "fetch": None}
    if kind(query["body"]) != "Select":
        return query
    select = body(query["body"])
    clause, order = query["limit_clause"], query["order_by"]
    if select["distinct"] or select["qualify"] or query["fetch"] or kind(clause) != "LimitOffset":
        return query
    if kind(order["kind"]) != "Expressions":
        return query
    most = body(clause)["limit"]
    if most is None or body(clause)["limit_by"]:
        return query
    rank = written("rank() OVER () <= most", most=most)
    if body(clause)["offset"]:
        rank = written("rank() OVER () <= most + skipped", most=most, skipped=body(clause)["offset"]["value"])
    keys = [{**key, "expr": by_name(key["expr"], select["projection"])} for key in body(order["kind"])]
    window = next(node for node in walk(rank) if kind(node) == "WindowSpec")
    ranked = replaced(rank, {id(window): {"WindowSpec": {**body(window), "order_by": keys}}})
    return {**query, "limit_clause": None, "order_by": None, "body": {"Select": {**select, "qualify": ranked}}}


def queries_of_with(tables: Sequence[Json], common: Callable[[Json], Json]) -> list[Json]:
    """Return the queries of WITH and the views that tables of a FROM read, also through each other."""
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
