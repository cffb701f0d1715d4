"""The two sides of an inner join below filters, projections and calls.

A node that reads only one side moves to this side. A table that an equality binds to one side joins this side first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.functions.call import AICall
from flightllm.optimizer.join_before_ai import compares_sides
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Call, Filter, Join, Node, Project, call_expressions, has_window, over_input


@dataclass(slots=True)
class Sides:
    """An inner join taken apart.

    Attributes:
        conditions: The conditions on a pair, over the columns of both sides.
        columns: Expressions that compute the output of the nodes above the join from both sides.
    """

    left: Node
    right: Node
    conditions: list[Expression]
    columns: list[Expression]

    @property
    def split(self) -> int:
        """Return the number of columns of the left side."""
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

    def join(self, other: Node, columns: list[Expression], conditions: list[Expression], functions: Functions) -> bool:
        """Join another input to the side that an equality binds it to; return whether there is such an equality.

        `columns` and `conditions` read the columns of `other` behind those of both sides.
        """
        split, end = self.split, self.split + self.right.width
        bound = [c for c in conditions if compares_sides(c, end, functions)]
        left = [c for c in bound if all(i < split or i >= end for i in ex.fields(c))]
        right = [c for c in bound if min(ex.fields(c)) >= split]
        if not right and not left:
            return False
        self.columns = columns
        if right:
            own = [c for c in conditions if min(ex.fields(c), default=end) >= split]
            on = functions.conjunction([ex.shift(c, -split) for c in own])
            self.right = Join(self.right, other, JoinRel.JOIN_TYPE_INNER, on)
        else:
            own = [c for c in conditions if all(i < split or i >= end for i in ex.fields(c))]

            def turned(expression: Expression) -> Expression:
                return ex.substitute(expression, lambda i: field(_turned(i, split, end, other.width)))

            self.left = Join(self.left, other, JoinRel.JOIN_TYPE_INNER, functions.conjunction(list(map(turned, own))))
            self.columns, self.conditions = list(map(turned, columns)), list(map(turned, self.conditions))
            conditions, own = list(map(turned, conditions)), list(map(turned, own))
        for condition in conditions:
            if condition not in own:
                self.add(condition)
        return True

    def ask(self, call: Call, *, left: bool) -> None:
        """Put a call on the side that it reads; `columns` and `conditions` see its answer behind the side's columns."""
        split = self.split
        if not left:
            self.right = AiMap(self.right, (moved_call(call, -split),))
            self.columns.append(field(split + self.right.width - 1))
            return
        self.left = AiMap(self.left, (call,))
        self.columns = [_apart(c, split) for c in self.columns]
        self.conditions = [_apart(c, split) for c in self.conditions]
        self.columns.append(field(split))


def _turned(column: int, split: int, end: int, width: int) -> int:
    """Return the place of a column once the columns from `end` on come behind those of the left side."""
    if column < split:
        return column
    return column + width if column < end else column - end + split


def _apart(expression: Expression, split: int) -> Expression:
    """Make room for one column behind the left side."""
    return ex.substitute(expression, lambda i: field(i if i < split else i + 1))


def moved_call(call: Call, by: int) -> Call:
    """Return a call that reads the columns `by` places further."""
    when = None if call.when is None else ex.shift(call.when, by)
    return replace(call, arguments=tuple(ex.shift(a, by) for a in call.arguments), when=when)


def must_see_rows(ai: AICall) -> bool:
    """Return whether a call must see its rows: a promise counts them, a sample calibrates by them, or each is asked."""
    return ai.promise is not None or ai.by_rows or ai.fresh or ai.before is not None or bool(ai.learned_by)


def take_apart(node: Node, functions: Functions, reading: Sequence[Expression], *, calls: bool) -> Sides | None:
    """Return the two sides of an inner join below row-wise nodes; None if something else is between them.

    Where the expressions `reading` read only one input of the join, the two sides are those of a join in this input.
    Without `calls`, other calls stay where they are: under a LIMIT, a side would ask more of them than some pairs do.
    """
    match node:
        case Join(left, right, JoinRel.JOIN_TYPE_INNER, condition):
            if condition is not None and functions.is_volatile(condition):
                return None
            return _deeper(node, functions, reading, calls=calls) or _inputs(left, right, condition, functions)
        case Filter():
            found = take_apart(node.input, functions, reading, calls=calls)
            moved = None if found is None else over_input(node.condition, found.columns, functions)
            if found is None or moved is None or functions.is_volatile(moved):
                return None
            for operand in functions.operands(moved, "and"):
                found.add(operand)
            return found
        case Project() if not has_window(node):
            read = [over_input(e, node.expressions, functions) for e in reading]
            found = take_apart(node.input, functions, [e for e in read if e is not None], calls=calls)
            columns = [] if found is None else [over_input(e, found.columns, functions) for e in node.expressions]
            if found is None or any(c is None or functions.is_volatile(c) for c in columns):
                return None
            found.columns = [c for c in columns if c is not None]
            return found
        case AiMap() if calls and not node.steps:
            found = take_apart(node.input, functions, reading, calls=calls)
            return None if found is None else _with_calls(found, node, functions)
        case _:
            return None


def _inputs(left: Node, right: Node, condition: Expression | None, functions: Functions) -> Sides:
    sides = Sides(left, right, [], [field(i) for i in range(left.width + right.width)])
    for operand in [] if condition is None else functions.operands(condition, "and"):
        sides.add(operand)
    return sides


def _deeper(node: Join, functions: Functions, reading: Sequence[Expression], *, calls: bool) -> Sides | None:
    """Take apart the input that has all columns of `reading`, and join the other input to one of its sides."""
    split = node.left.width
    read = {i for e in reading for i in ex.fields(e)}
    if not read or node.condition is None or min(read) < split <= max(read):
        return None
    first = max(read) < split
    own, other = (node.left, node.right) if first else (node.right, node.left)
    found = take_apart(own, functions, reading if first else [ex.shift(e, -split) for e in reading], calls=calls)
    if found is None:
        return None
    end = found.split + found.right.width
    behind = [field(end + i) for i in range(other.width)]
    columns = [*found.columns, *behind] if first else [*behind, *found.columns]
    conditions = [over_input(c, columns, functions) for c in functions.operands(node.condition, "and")]
    known = [c for c in conditions if c is not None]
    if len(known) < len(conditions) or not found.join(other, columns, known, functions):
        return None
    return found


def _with_calls(sides: Sides, node: AiMap, functions: Functions) -> Sides | None:
    """Put the calls of an operator on the sides that they read; None if a call reads both, or must see its rows."""
    columns = list(sides.columns)
    for call in node.calls:
        if must_see_rows(call.ai) or call.ai.join is not None:
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
