"""The contents of a SELECT: aggregates, windows, calls of a model, and parts that no pass reads."""

from collections.abc import Collection, Iterator
from typing import Final

from flightllm.sql.aggregates import AGGREGATES
from flightllm.sql.changing import RANDOM
from flightllm.sql.model_calls import asks_model
from flightllm.sql.nodes import Json, Node, body, is_query, kind, parts, walk
from flightllm.sql.types import function_name

_CLAUSES: Final = ("top", "prewhere", "into", "connect_by", "cluster_by", "distribute_by", "sort_by", "lateral_views")
_SETS: Final = frozenset({"unnest"})
"""Functions of SELECT that return several rows."""


def own_nodes(value: Json) -> Iterator[Node]:
    """Yield the nodes of an expression that are in no query inside it."""
    todo = [value]
    while todo:
        found = todo.pop()
        if kind(found):
            yield found
        if not is_query(found):
            todo.extend(parts(found))


def aggregates(value: Json) -> list[Node]:
    """Return the calls of aggregates in an expression, outside of queries in it."""
    return [node for node in own_nodes(value) if is_aggregate(node)]


def is_aggregate(node: Node) -> bool:
    """Return whether a node calls an aggregate."""
    return kind(node) == "Function" and body(node)["over"] is None and function_name(body(node)) in AGGREGATES


def changes_per_call(value: Json, own_functions: Collection[str] = ()) -> bool:
    """Return whether a value calls a model or a volatile function, also in a query in it.

    `own_functions` are the server's own functions, which ask a model.
    """
    return is_random(value) or any(asks_model(name, own_functions) for name in _called(value))


def is_random(value: Json) -> bool:
    """Return whether a value calls a volatile function, also in a query in it."""
    return not RANDOM.isdisjoint(_called(value))


def _called(value: Json) -> Iterator[str]:
    return (function_name(body(node)) for node in walk(value) if kind(node) == "Function")


def keys_of(select: Json) -> list[Json]:
    """Return the keys of a SELECT's GROUP BY."""
    grouped = select["group_by"]
    return body(grouped)[0] if kind(grouped) == "Expressions" else []


def is_grouped(select: Json) -> bool:
    """Return whether a SELECT groups its rows."""
    grouped = kind(select["group_by"]) != "Expressions" or bool(keys_of(select)) or bool(body(select["group_by"])[1])
    return grouped or select["having"] is not None or bool(aggregates(select["projection"]))


def has_windows(select: Json) -> bool:
    """Return whether a SELECT computes over windows."""
    return any(kind(node) == "Function" and body(node)["over"] for node in own_nodes(select["projection"]))


def has_sets(select: Json) -> bool:
    """Return whether an item of a SELECT returns several rows."""
    functions = (body(node) for node in own_nodes(select["projection"]) if kind(node) == "Function")
    return any(function_name(function) in _SETS for function in functions)


def is_limited(query: Json) -> bool:
    """Return whether a query has a LIMIT, an OFFSET or a FETCH."""
    return bool(query["limit_clause"] or query["fetch"])


def is_plain(query: Json) -> bool:
    """Return whether a query only joins tables, filters rows and computes columns."""
    if kind(query["body"]) != "Select" or query["with"] or is_limited(query):
        return False
    select = body(query["body"])
    return not (
        is_grouped(select)
        or select["distinct"]
        or has_windows(select)
        or has_sets(select)
        or select["qualify"]
        or not is_known(query)
    )


def is_known(query: Json) -> bool:
    """Return whether a pass reads all clauses of a query."""
    if query["pipe_operators"] or query["for_clause"] or query["locks"]:
        return False
    if kind(query["body"]) != "Select":
        return True
    select = body(query["body"])
    return not any(select[clause] for clause in _CLAUSES) and select["flavor"] == "Standard"


def gives_one_row(query: Json) -> bool:
    """Return whether a query surely has at most one row."""
    if kind(query["body"]) != "Select":
        return False
    select = body(query["body"])
    limit = query["limit_clause"]
    one = limit and kind(limit) == "LimitOffset" and _is_number(body(limit)["limit"], "1")
    return bool(one) or (not has_sets(select) and (is_single(select) or not select["from"]))


def is_single(select: Json) -> bool:
    """Return whether a SELECT computes aggregates over all its rows."""
    return is_grouped(select) and kind(select["group_by"]) == "Expressions" and not any(body(select["group_by"]))


def _is_number(value: Json, number: str) -> bool:
    number_value: Json = body(value)["value"] if kind(value) == "Value" else None
    return kind(number_value) == "Number" and body(number_value)[0] == number


def conjuncts(condition: Json) -> Iterator[Json]:
    """Yield the parts of a condition that AND joins, in their order."""
    return operands_of(condition, "And")


def operands_of(condition: Json, operator: str) -> Iterator[Json]:
    """Yield the parts of a condition that an operator (`And`, `Or`) joins, in their order."""
    todo = [condition] if condition is not None else []
    while todo:
        found = todo.pop()
        if kind(found) == "BinaryOp" and body(found)["op"] == operator:
            todo += (body(found)["right"], body(found)["left"])
        elif kind(found) == "Nested" and kind(body(found)) in {"Nested", "BinaryOp"}:
            todo.append(body(found))
        else:
            yield found


def joined(conditions: list[Json]) -> Json:
    """Return conditions joined by AND, or None for an empty list."""
    found: Json = None
    for one in conditions:
        part = one if kind(one) not in {"BinaryOp", "IsNotDistinctFrom", "IsDistinctFrom"} else {"Nested": one}
        found = part if found is None else {"BinaryOp": {"left": found, "op": "And", "right": part}}
    return found
