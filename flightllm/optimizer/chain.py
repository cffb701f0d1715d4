"""A row-wise chain of filters and AI operators, taken apart so that a rule can rebuild it over another input."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from substrait.algebra_pb2 import Expression

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    AiMap,
    Call,
    Filter,
    Node,
    Project,
    call_expressions,
    has_window,
    over_input,
    own_messages,
)

Step: TypeAlias = tuple[Call, ...] | Expression
"""The calls of an operator, or the condition of a filter."""


@dataclass(frozen=True, slots=True)
class Chain:
    """`steps` on top of `base`, the lowest step first; the output is the columns of `base`, then one column per call.

    `columns` says how each column of the original node is computed from these.
    """

    base: Node
    steps: tuple[Step, ...]
    columns: tuple[Expression, ...]

    @property
    def calls(self) -> int:
        """Return the number of columns that the steps add."""
        return sum(len(step) for step in self.steps if isinstance(step, tuple))

    @property
    def width(self) -> int:
        """Return the number of columns of the base and the steps together."""
        return self.base.width + self.calls

    @property
    def by_rows(self) -> bool:
        """Return whether a sample of its rows calibrates a call: over another base, it would answer otherwise."""
        return any(call.ai.by_rows for step in self.steps if isinstance(step, tuple) for call in step)

    @property
    def keeps_its_rows(self) -> bool:
        """Return whether the chain must stay over its base: a sample calibrates a call, or a call decides a join."""
        return self.by_rows or self.joins

    @property
    def joins(self) -> bool:
        """Return whether a call decides a join of the base: the join must stay below it."""
        return any(call.ai.join is not None for step in self.steps if isinstance(step, tuple) for call in step)

    @property
    def cascades(self) -> bool:
        """Return whether a call promises something about its rows: over another base, the promise would be another."""
        return any(call.ai.cascades for step in self.steps if isinstance(step, tuple) for call in step)

    def asking_all(self, reason: str) -> "Chain":
        """Return the chain whose calls get no help by proxies; `reason` says why."""
        if not self.cascades:
            return self
        return replace(
            self,
            steps=tuple(
                tuple(replace(call, ai=call.ai.asking_all(reason)) for call in step)
                if isinstance(step, tuple)
                else step
                for step in self.steps
            ),
        )

    def is_plain(self, expression: Expression) -> bool:
        """Return whether an expression over the base and the calls reads no answer."""
        return all(i < self.base.width for i in ex.fields(expression))

    def over(self, node: Node, move: Callable[[Expression], Expression]) -> Node:
        """Return the steps on top of `node`; `move` rewrites expressions over the base and the calls accordingly."""
        for step in self.steps:
            if isinstance(step, tuple):
                node = AiMap(node, tuple(moved(call, move) for call in step))
            else:
                node = Filter(node, move(step))
        return node

    def mover(self, node: Node, places: Sequence[int]) -> Callable[[Expression], Expression]:
        """Return the `move` function for `over` where column `i` of the base is column `places[i]` of `node`."""
        width = self.base.width

        def move(expression: Expression) -> Expression:
            return ex.substitute(expression, lambda i: field(places[i] if i < width else i - width + node.width))

        return move


def moved(call: Call, move: Callable[[Expression], Expression]) -> Call:
    """Return the call with its arguments and guard rewritten by `move`."""
    return replace(
        call, arguments=tuple(map(move, call.arguments)), when=None if call.when is None else move(call.when)
    )


def whole(node: Node) -> Chain:
    """Return a chain without steps."""
    return Chain(node, (), tuple(map(field, range(node.width))))


def peel(node: Node, functions: Functions, *, filters: bool = True, nested: bool = True) -> Chain | None:
    """Take apart `node` down to its lowest AI operator below row-wise nodes; None if it has no AI operator.

    The chain ends at a node with a volatile expression or a window function. Without `filters`, it also ends at a
    filter. Without `nested`, it ends below an operator whose arguments read the answers of a lower one.
    """
    if any(functions.is_volatile(e) for e in own_messages(node) if isinstance(e, Expression)):
        return None
    match node:
        case AiMap():
            return _peel_calls(node, functions, filters=filters, nested=nested)
        case Filter() if filters:
            below = peel(node.input, functions, nested=nested)
            condition = None if below is None else over_input(node.condition, below.columns, functions)
            if below is None or condition is None:
                return None
            return replace(below, steps=(*below.steps, condition))
        case Project() if not has_window(node):
            below = peel(node.input, functions, filters=filters, nested=nested)
            columns = None if below is None else all_over(node.expressions, below.columns, functions)
            return None if below is None or columns is None else replace(below, columns=columns)
        case _:
            return None


def _peel_calls(node: AiMap, functions: Functions, *, filters: bool, nested: bool) -> Chain:
    below = peel(node.input, functions, filters=filters, nested=nested)
    calls = None if below is None else _calls_over(node.calls, below, functions)
    if calls is not None and below is not None and not nested:
        read = (i for call in calls for argument in call.arguments for i in ex.fields(argument))
        calls = None if any(i >= below.base.width for i in read) else calls
    if below is None or calls is None:
        below, calls = whole(node.input), node.calls
    answers = map(field, range(below.width, below.width + len(calls)))
    return Chain(below.base, (*below.steps, calls), (*below.columns, *answers))


def _calls_over(calls: tuple[Call, ...], below: Chain, functions: Functions) -> tuple[Call, ...] | None:
    if all_over(call_expressions(calls), below.columns, functions) is None:
        return None
    return tuple(moved(c, lambda e: over_input(e, below.columns, functions) or e) for c in calls)


def all_over(
    expressions: Iterable[Expression], columns: Sequence[Expression | None], functions: Functions
) -> tuple[Expression, ...] | None:
    """Look through a projection with all of `expressions`; return None if one of them cannot be rewritten."""
    result = [over_input(e, columns, functions) for e in expressions]
    known = tuple(e for e in result if e is not None)
    return known if len(known) == len(result) else None
