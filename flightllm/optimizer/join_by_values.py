"""Turn a yes/no call over the pairs of an inner join into one operator, which asks about distinct values of both sides.

Filter(f(a.x, b.y), AiMap(f, Join(a, b)))            →  AiJoin(a, b, f)
Filter(f(a.x, b.y), AiMap(f, Filter(a.n < b.n, …)))  →  AiJoin(a, b, f, a.n < b.n)

Filters and calls between the call and the join that read one side only move to this side. The operator then needs no
table of all pairs. A call that names a strategy must become such an operator. Other calls do only where no equality
limits the pairs: rows that an equality has joined are few, and the ordinary operator can do more with them.

The call can read both sides of an inner join below another one. A table that an equality binds to one of its sides
joins this side first. Any other join comes after the operator, where the call names a strategy.

Filter(f(a.x, b.y), AiMap(f, Join(Join(a, b), c, b.k = c.k)))  →  AiJoin(a, Join(b, c, b.k = c.k), f)
Filter(f(a.x, b.y), AiMap(f, Join(Join(a, b), c)))             →  Join(AiJoin(a, b, f), c)
"""

from dataclasses import replace

import pyarrow as pa
from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.errors import AICallError
from flightllm.functions.call import MODEL
from flightllm.optimizer.join_before_ai import compares_sides
from flightllm.optimizer.join_sides import Sides, moved_call, must_see_rows, take_apart
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    AiJoin,
    AiMap,
    Call,
    Fetch,
    Filter,
    Join,
    Node,
    Project,
    has_window,
    over_input,
    transform,
    walk,
)

_TRUE = Expression(literal=Expression.Literal(boolean=True))


def join_by_values(root: Node, functions: Functions, *, every: bool = True) -> Node:
    """Return the plan with operators for the pairs of joins; without `every`, only calls that name a strategy.

    Raises:
        AICallError: a call names a strategy, and it joins no two inputs.
    """
    changed = transform(root, lambda node: _joined(node, functions, every=every))
    if every and not any(isinstance(node, Fetch) for node in walk(changed)):
        changed = transform(changed, lambda node: _compared(node, functions))
    for node in walk(changed):
        for call in node.calls if isinstance(node, AiMap) else ():
            if call.ai.join is not None:
                raise AICallError(
                    f"{call.ai.text}: strategy => and symmetric => are for a filter that joins two tables: write it as"
                    " a condition of its own, FROM a JOIN b ON ai_filter('…', a.x, b.y) AND …, where each field reads"
                    " one of the two tables, and at most one call of the join has them. No other condition of the join"
                    " can be volatile, as random() is"
                )
    return changed


def _joined(node: Node, functions: Functions, *, every: bool) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, AiMap) or len(node.input.calls) != 1:
        return node
    asking, (call,) = node.input, node.input.calls
    if not _suits(call, every=every) or asking.steps:
        return node
    answer = asking.width - 1
    operands = functions.operands(node.condition, "and")
    others = [o for o in operands if ex.field_index(o) != answer]
    moves = call.ai.join is not None
    if len(others) == len(operands):
        return node
    sides = take_apart(asking.input, functions, call.arguments, calls=moves)
    joined = None if sides is None else _over_pairs(call, sides, functions)
    if joined is None and moves:
        joined = _below(asking.input, call, functions, every=every)
    if joined is None:
        return node
    rest = functions.conjunction(others)
    return joined if rest is None else Filter(joined, rest)


def _over_pairs(call: Call, sides: Sides, functions: Functions) -> Node | None:
    """Return the operator for the pairs of both sides, with the answer as last column; None if it does not fit."""
    if call.ai.join is None and any(compares_sides(c, sides.split, functions) for c in sides.conditions):
        return None
    arguments = [over_input(a, sides.columns, functions) for a in call.arguments]
    known = tuple(a for a in arguments if a is not None)
    places = [sides.side(a) for a in known]
    read = {place for place, a in zip(places, known, strict=True) if ex.fields(a)}
    if len(known) < len(arguments) or read != {True, False}:
        return None
    pairs = AiJoin(sides.left, sides.right, functions.conjunction(sides.conditions), replace(call, arguments=known))
    return Project(pairs, (*sides.columns, _TRUE))


def _below(node: Node, call: Call, functions: Functions, *, every: bool) -> Node | None:
    """Ask a call below the inner join, or the pairs, of which it reads one side; None if it cannot.

    Filters and projections above this join stay above it. The answer is the last column of the result.
    """
    match node:
        case Join(left, right, JoinRel.JOIN_TYPE_INNER, _) | AiJoin(left, right):
            read = {i for a in call.arguments for i in ex.fields(a)}
            if not read or min(read) < left.width <= max(read):
                return None
            first = max(read) < left.width
            side, moved = (left, call) if first else (right, moved_call(call, -left.width))
            asked = Filter(AiMap(side, (moved,)), field(side.width))
            joined = _joined(asked, functions, every=every)
            if joined is asked:
                return None
            own = Project(joined, tuple(field(i) for i in range(side.width)))
            both = replace(node, left=own) if first else replace(node, right=own)
        case Filter() if not functions.is_volatile(node.condition):
            below = _below(node.input, call, functions, every=every)
            return None if below is None else Filter(below, node.condition)
        case Project() if not has_window(node):
            arguments = [over_input(a, node.expressions, functions) for a in call.arguments]
            if any(a is None for a in arguments):
                return None
            own_call = replace(call, arguments=tuple(a for a in arguments if a is not None))
            below = _below(node.input, own_call, functions, every=every)
            return None if below is None else Project(below, (*node.expressions, _TRUE))
        case _:
            return None
    return Project(both, (*(field(i) for i in range(node.width)), _TRUE))


def _compared(node: Node, functions: Functions) -> Node:
    """Put the calls below a cross join whose answers a filter compares, so that the filter joins the answers.

    Filter(f(a.x) = f(b.y), AiMap(f(a.x), f(b.y), Cross(a, b)))  →  Join(AiMap(f(a.x), a), AiMap(f(b.y), b), equal)

    Each row of a cross join has a partner, so there are as many calls as before. A LIMIT would need fewer of them.
    """
    if not isinstance(node, Filter) or not isinstance(node.input, AiMap):
        return node
    sides = take_apart(node.input, functions, (), calls=True)
    condition = None if sides is None or sides.conditions else over_input(node.condition, sides.columns, functions)
    if sides is None or condition is None or functions.is_volatile(condition):
        return node
    operands = functions.operands(condition, "and")
    if not any(sides.side(o) is None for o in operands):
        return node
    return Project(Join(sides.left, sides.right, JoinRel.JOIN_TYPE_INNER, condition), tuple(sides.columns))


def _suits(call: Call, *, every: bool) -> bool:
    """Return whether the answers of a call about pairs depend on nothing but the pair of values."""
    ai = call.ai
    if call.when is not None or ai.backend != MODEL or not pa.types.is_boolean(ai.type):
        return False
    if ai.join is not None:
        return True
    return every and not must_see_rows(ai)
