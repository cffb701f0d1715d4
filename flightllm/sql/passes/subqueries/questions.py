"""Questions about subqueries: EXISTS, IN, ANY and ALL, or the one value of a subquery."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from flightllm.sql.nodes import Json, Node, body, is_query, kind, parts, replaced, unnested
from flightllm.sql.passes.subqueries.items import by_name
from flightllm.sql.select_shapes import is_aggregate, is_plain, own_nodes
from flightllm.sql.tree import written
from flightllm.sql.types import expressions_of, function_name

OPPOSITES: Final = {"Eq": "NotEq", "NotEq": "Eq", "Lt": "GtEq", "LtEq": "Gt", "Gt": "LtEq", "GtEq": "Lt"}
"""The comparison that is true where another one is false."""


ARRAY: Final = "Array"
"""The operator of `ARRAY(SELECT …)` with a query whose rows an aggregate cannot list."""


@dataclass(frozen=True)
class Question:
    """A node that asks about a query. The operator is empty for EXISTS and for a value; `left` is compared."""

    node: Node
    query: Json
    operator: str = ""
    left: Json = None
    negated: bool = False
    value: bool = False


@dataclass(frozen=True)
class Place:
    """The place of a question.

    `false`: NULL counts as false there; `alone`: only AND is around it; `plain`: it is in no list and no window.
    """

    false: bool = False
    alone: bool = False
    aggregate: bool = False
    plain: bool = True


def question(node: Node) -> Question | None:
    """Return what a node asks about a subquery, or None."""
    fields = body(node)
    match kind(node):
        case "Exists":
            return Question(node, fields["subquery"], negated=fields["negated"])
        case "Subquery":
            return Question(node, fields, value=True)
        case "InSubquery":
            return Question(node, fields["subquery"], "Eq", fields["expr"], negated=fields["negated"])
        case "AnyOp" | "AllOp" if kind(unnested(fields["right"])) == "Subquery" and fields["compare_op"] in OPPOSITES:
            rows, operator, every = body(unnested(fields["right"])), fields["compare_op"], kind(node) == "AllOp"
            return Question(node, rows, OPPOSITES[operator] if every else operator, fields["left"], negated=every)
        case "BinaryOp" if fields["op"] in {"Eq", "NotEq"} and kind(unnested(fields["left"])) == "Tuple":
            if kind(unnested(fields["right"])) == "Subquery":
                unequal = fields["op"] == "NotEq"
                return Question(
                    node, body(unnested(fields["right"])), "Eq", fields["left"], negated=unequal, value=True
                )
            return None
        case "Function" if kind(fields["args"]) == "Subquery" and function_name(fields) == "array":
            rows = _listed(body(fields["args"]))
            return Question(node, body(fields["args"]), ARRAY) if rows is None else Question(node, rows, value=True)
        case _:
            return None


def _listed(query: Json) -> Json:
    """Return the query of the list that ARRAY makes of a query's rows, or None for a form that has no such query."""
    items = expressions_of(query["body"])
    if not is_plain({**query, "with": None}) or len(items) != 1:
        return None
    order = query["order_by"]
    keys = body(order["kind"]) if order and kind(order["kind"]) == "Expressions" else []
    select = body(query["body"])
    ordered = [{**key, "expr": by_name(key["expr"], select["projection"])} for key in keys]
    found = written("coalesce(array_agg(v ORDER BY v), [])", v=items[0])
    call = next(node for node in own_nodes(found) if is_aggregate(node))
    listed = body(body(call)["args"])
    clauses = [{"OrderBy": ordered}] if ordered else []
    with_order = {"Function": {**body(call), "args": {"List": {**listed, "clauses": clauses}}}}
    item = {"UnnamedExpr": replaced(found, {id(call): with_order})}
    return {**query, "order_by": None, "body": {"Select": {**select, "projection": [item]}}}


def questions(value: Json, *, condition: bool) -> Iterator[tuple[Question, Place]]:
    """Yield the questions in an expression with their places. `condition`: NULL counts as false for the whole."""
    todo = [(value, Place(condition, condition))]
    while todo:
        found, place = todo.pop()
        asked = question(found) if kind(found) else None
        if asked is not None:
            yield asked, place
            continue
        if is_query(found):
            continue
        todo.extend((part, _below(found, place)) for part in parts(found))


def _below(found: Json, place: Place) -> Place:
    """Return the place of the parts of a value."""
    name = kind(found)
    if name in {"", "Nested"}:
        return place
    if name == "BinaryOp" and body(found)["op"] in {"And", "Or"}:
        return replace(place, alone=place.alone and body(found)["op"] == "And")
    return Place(
        aggregate=place.aggregate or is_aggregate(found),
        plain=place.plain and not (name in {"InList", "WindowSpec"} or _is_window(found)),
    )


def _is_window(found: Json) -> bool:
    return kind(found) == "Function" and bool(body(found)["over"])
