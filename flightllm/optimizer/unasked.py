"""Takes calls out of an AI operator; NULL replaces their answers."""

from collections.abc import Container
from dataclasses import replace

from substrait.algebra_pb2 import Expression
from substrait.type_pb2 import Type

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import field
from flightllm.plan.nodes import AiMap, Call, Node, Project

_FALSE = Expression(literal=Expression.Literal(boolean=False))
_NO_TEXT = ex.null(Type(string=Type.String(nullability=Type.NULLABILITY_NULLABLE)))


def without_calls(node: AiMap, calls: Container[int]) -> Node:
    """Return the operator without some calls, by position, with NULL in their columns.

    A NULL does not name the fields of a struct, which nodes above can still read. So a call that returns a struct
    stays, with a guard that is false for every row.
    """
    width = node.input.width
    changed = [_unasked(c) if i in calls and _is_struct(c) else c for i, c in enumerate(node.calls)]
    kept = [c for i, c in enumerate(changed) if i not in calls or _is_struct(c)]
    if len(kept) == len(node.calls):
        return node if all(a is b for a, b in zip(kept, node.calls, strict=True)) else AiMap(node.input, tuple(kept))
    smaller = AiMap(node.input, tuple(kept)) if kept else node.input
    places = iter(range(width, width + len(kept)))
    answers = [
        field(next(places)) if i not in calls or _is_struct(c) else ex.null(c.type) for i, c in enumerate(changed)
    ]
    return Project(smaller, (*map(field, range(width)), *answers))


def _is_struct(call: Call) -> bool:
    return bool(call.type.HasField("struct"))


def _unasked(call: Call) -> Call:
    if call.when is not None and ex.key(call.when) == ex.key(_FALSE):
        return call
    return replace(call, arguments=(_NO_TEXT,) * len(call.arguments), when=_FALSE)
