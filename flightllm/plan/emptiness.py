"""Inputs of a node that decide its result when they have no rows, and nodes that can have no rows at all."""

from substrait.algebra_pb2 import Expression, JoinRel, SetRel

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    Aggregate,
    AiJoin,
    AiMap,
    Fetch,
    Filter,
    GroupLimit,
    Groups,
    Join,
    Node,
    Number,
    Project,
    Scan,
    SetOp,
    Sort,
)

_BOTH = frozenset({JoinRel.JOIN_TYPE_INNER, JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_RIGHT_SEMI})
_LEFT_DECIDES = _BOTH | {JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_LEFT_ANTI, JoinRel.JOIN_TYPE_LEFT_MARK}
_RIGHT_DECIDES = _BOTH | {JoinRel.JOIN_TYPE_RIGHT, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK}
_INTERSECTIONS = frozenset(
    {
        SetRel.SET_OP_INTERSECTION_PRIMARY,
        SetRel.SET_OP_INTERSECTION_MULTISET,
        SetRel.SET_OP_INTERSECTION_MULTISET_ALL,
    }
)
_DIFFERENCES = frozenset({SetRel.SET_OP_MINUS_PRIMARY, SetRel.SET_OP_MINUS_PRIMARY_ALL, SetRel.SET_OP_MINUS_MULTISET})


def deciders(node: Node, child: int) -> tuple[Node, ...]:
    """Return the other inputs of `node` that make the input `child` irrelevant if they have no rows.

    An inner join with an empty side returns no rows, whatever the other side has.
    """
    match node:
        case Join(left, right, kind):
            if child == 0:
                return (right,) if kind in _RIGHT_DECIDES else ()
            return (left,) if kind in _LEFT_DECIDES else ()
        case SetOp(inputs, rel):
            if rel.op in _INTERSECTIONS:
                return tuple(i for at, i in enumerate(inputs) if at != child)
            return (inputs[0],) if rel.op in _DIFFERENCES and child > 0 else ()
        case _:
            return ()


def is_empty(node: Node, functions: Functions) -> bool:
    """Return whether the plan by itself shows that `node` has no rows."""
    match node:
        case Filter():
            return is_never(node.condition, functions) or is_empty(node.input, functions)
        case Fetch():
            bounds = ex.bounds(node.rel)
            return (bounds is not None and bounds[1] == 0) or is_empty(node.input, functions)
        case Aggregate():
            groupings = node.rel.groupings
            keyed = bool(groupings) and all(g.expression_references for g in groupings)
            return keyed and is_empty(node.input, functions)
        case Project() | Sort() | AiMap() | Number() | Groups() | GroupLimit():
            return is_empty(node.input, functions)
        case AiJoin():
            return is_empty(node.left, functions) or is_empty(node.right, functions)
        case Join(left, right, kind):
            sides = is_empty(left, functions), is_empty(right, functions)
            return all(sides) or (sides[0] and kind in _LEFT_DECIDES) or (sides[1] and kind in _RIGHT_DECIDES)
        case SetOp(inputs, rel):
            found = [is_empty(i, functions) for i in inputs]
            if rel.op in _INTERSECTIONS:
                return any(found)
            return found[0] if rel.op in _DIFFERENCES else all(found)
        case Scan():
            return False


def is_never(condition: Expression, functions: Functions) -> bool:
    """Return whether a condition's literals show that it is false or NULL for every row."""
    name = functions.name(condition)
    if name == "and":
        return any(is_never(o, functions) for o in ex.arguments(condition))
    if name == "or":
        return all(is_never(o, functions) for o in ex.arguments(condition))
    if name in {"equal", "not_equal"}:
        values = [_value(a) for a in ex.arguments(condition)]
        if None in values:
            return False
        if any(kind == "null" for kind, _ in filter(None, values)):
            return True
        (one, left), (other, right) = filter(None, values)
        return one == other and (left == right) == (name == "not_equal")
    value = _value(condition)
    return value is not None and (value[0] == "null" or value == ("boolean", False))


_PLAIN = frozenset({"string", "i8", "i16", "i32", "i64", "boolean", "null"})


def _value(expression: Expression) -> tuple[str, object] | None:
    """Return the kind and value of a literal that can be compared here; None for other expressions."""
    if expression.WhichOneof("rex_type") != "literal":
        return None
    kind = expression.literal.WhichOneof("literal_type")
    if kind is None or kind not in _PLAIN:
        return None
    return kind, None if kind == "null" else getattr(expression.literal, kind)
