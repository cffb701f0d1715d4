"""Turn a yes/no call over the pairs of an inner join into one operator, which asks about distinct values of both sides.

Filter(f(a.x, b.y), AiMap(f, Join(a, b)))            →  AiJoin(a, b, f)
Filter(f(a.x, b.y), AiMap(f, Filter(a.n < b.n, …)))  →  AiJoin(a, b, f, a.n < b.n)

Filters and calls between the call and the join that read one side only move to this side. The operator then needs no
table of all pairs. A call that names a strategy must become such an operator. Other calls do only where no equality
limits the pairs: rows that an equality has joined are few, and the ordinary operator can do more with them.
"""

from dataclasses import dataclass, replace

import pyarrow as pa
from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.errors import AICallError
from flightllm.functions.call import MODEL, AICall
from flightllm.optimizer.join_before_ai import compares_sides
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
    call_expressions,
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


@dataclass(slots=True)
class _Sides:
    """An inner join taken apart; `columns` compute the output of the nodes above it from both sides."""

    left: Node
    right: Node
    conditions: list[Expression]
    columns: list[Expression]

    @property
    def split(self) -> int:
        return self.left.width

    def side(self, expression: Expression) -> bool | None:
        """Return whether an expression reads the left side only, or the right side only; None if it reads both."""
        read = ex.fields(expression)
        if all(c < self.split for c in read):
            return True
        return False if min(read) >= self.split else None

    def add(self, condition: Expression) -> None:
        """Filter the side that a condition reads, or the pairs."""
        side = self.side(condition)
        if side is None or not ex.fields(condition):
            self.conditions.append(condition)
        elif side:
            self.left = Filter(self.left, condition)
        else:
            self.right = Filter(self.right, ex.shift(condition, -self.split))

    def ask(self, call: Call, *, left: bool) -> None:
        """Put a call on the side that it reads; `columns` and `conditions` see its answer behind the side's columns."""
        split = self.split
        if not left:
            self.right = AiMap(self.right, (_moved(call, -split),))
            self.columns.append(field(split + self.right.width - 1))
            return
        self.left = AiMap(self.left, (call,))
        self.columns = [_apart(c, split) for c in self.columns]
        self.conditions = [_apart(c, split) for c in self.conditions]
        self.columns.append(field(split))


def _apart(expression: Expression, split: int) -> Expression:
    """Make room for one column behind the left side."""
    return ex.substitute(expression, lambda i: field(i if i < split else i + 1))


def _moved(call: Call, by: int) -> Call:
    when = None if call.when is None else ex.shift(call.when, by)
    return replace(call, arguments=tuple(ex.shift(a, by) for a in call.arguments), when=when)


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
    sides = None if len(others) == len(operands) else _taken_apart(asking.input, functions, calls=moves)
    if sides is None:
        return node
    if not moves and any(compares_sides(c, sides.split, functions) for c in sides.conditions):
        return node
    arguments = [over_input(a, sides.columns, functions) for a in call.arguments]
    known = tuple(a for a in arguments if a is not None)
    places = [sides.side(a) for a in known]
    read = {place for place, a in zip(places, known, strict=True) if ex.fields(a)}
    if len(known) < len(arguments) or read != {True, False}:
        return node
    pairs = AiJoin(sides.left, sides.right, functions.conjunction(sides.conditions), replace(call, arguments=known))
    result: Node = Project(pairs, (*sides.columns, _TRUE))
    rest = functions.conjunction(others)
    return result if rest is None else Filter(result, rest)


def _compared(node: Node, functions: Functions) -> Node:
    """Put the calls below a cross join whose answers a filter compares, so that the filter joins the answers.

    Filter(f(a.x) = f(b.y), AiMap(f(a.x), f(b.y), Cross(a, b)))  →  Join(AiMap(f(a.x), a), AiMap(f(b.y), b), equal)

    Each row of a cross join has a partner, so there are as many calls as before. A LIMIT would need fewer of them.
    """
    if not isinstance(node, Filter) or not isinstance(node.input, AiMap):
        return node
    sides = _taken_apart(node.input, functions, calls=True)
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
    return every and not _samples(ai)


def _samples(ai: AICall) -> bool:
    """Return whether a call must see its rows: a promise counts them, a sample calibrates by them, or each is asked."""
    return ai.promise is not None or ai.by_rows or ai.fresh or ai.before is not None or bool(ai.learned_by)


def _taken_apart(node: Node, functions: Functions, *, calls: bool) -> _Sides | None:
    """Return the two sides of an inner join below row-wise nodes; None if something else is between them.

    Without `calls`, other calls stay where they are: under a LIMIT, a side would ask more of them than some pairs do.
    """
    match node:
        case Join(left, right, JoinRel.JOIN_TYPE_INNER, condition):
            if condition is not None and functions.is_volatile(condition):
                return None
            sides = _Sides(left, right, [], [field(i) for i in range(left.width + right.width)])
            for operand in [] if condition is None else functions.operands(condition, "and"):
                sides.add(operand)
            return sides
        case Filter():
            found = _taken_apart(node.input, functions, calls=calls)
            moved = None if found is None else over_input(node.condition, found.columns, functions)
            if found is None or moved is None or functions.is_volatile(moved):
                return None
            for operand in functions.operands(moved, "and"):
                found.add(operand)
            return found
        case Project() if not has_window(node):
            found = _taken_apart(node.input, functions, calls=calls)
            columns = [] if found is None else [over_input(e, found.columns, functions) for e in node.expressions]
            if found is None or any(c is None or functions.is_volatile(c) for c in columns):
                return None
            found.columns = [c for c in columns if c is not None]
            return found
        case AiMap() if calls and not node.steps:
            found = _taken_apart(node.input, functions, calls=calls)
            return None if found is None else _with_calls(found, node, functions)
        case _:
            return None


def _with_calls(sides: _Sides, node: AiMap, functions: Functions) -> _Sides | None:
    """Put the calls of an operator on the sides that they read; None if a call reads both, or must see its rows."""
    columns = list(sides.columns)
    for call in node.calls:
        if _samples(call.ai) or call.ai.join is not None:
            return None
        current = sides.columns[: len(columns)]
        moved = [over_input(e, current, functions) for e in call_expressions([call])]
        read = [e for e in moved if e is not None]
        places = {sides.side(e) for e in read if ex.fields(e)}
        if len(read) < len(moved) or len(places) != 1 or None in places:
            return None
        count = len(call.arguments)
        own = replace(call, arguments=tuple(read[:count]), when=None if call.when is None else read[count])
        sides.ask(own, left=places == {True})
    return sides
