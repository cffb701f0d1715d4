"""Fuse AI filters, and calls that need their outcome, into one operator that drops rows between its calls.

AiMap(c, Filter(f(b), AiMap(b, Filter(f(a), AiMap(a, x)))))  →  AiMap(ask a, keep f(a); ask b, keep f(b); ask c)(x)

One operator can try the filters in the order that its own rows show to be the cheapest, ask the next call of a row
while the row's prompt is still in the engine's prefix cache, and stop as soon as a LIMIT has its rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from substrait.algebra_pb2 import Expression

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Call, Filter, Node, Project, Step, children, with_children
from flightllm.plan.through import has_window, over_input


@dataclass(frozen=True, slots=True)
class _Chain:
    """Filters, AI operators and projections in a row, over the columns of `base` and then those of `calls`."""

    base: Node
    calls: tuple[Call, ...] = ()
    conditions: tuple[Expression, ...] = ()
    columns: tuple[Expression, ...] = ()
    """What the top of the chain returns."""

    @property
    def width(self) -> int:
        """Return the number of columns of the base."""
        return self.base.width

    def own_calls(self, expression: Expression | None) -> frozenset[int]:
        """Return the calls whose column an expression reads, and those that their guards read."""
        direct = {c - self.width for c in _fields(expression) if c >= self.width}
        return frozenset(direct).union(*(self.own_calls(self.calls[c].when) for c in direct))


def fuse(root: Node, functions: Functions) -> Node:
    """Return the plan with each chain of AI filters, guards and calls made one operator."""
    chain = _chain(root, functions) if isinstance(root, Filter | AiMap) else None
    if chain is None or not _gains(chain):
        return with_children(root, tuple(fuse(c, functions) for c in children(root)))
    return _fused(replace(chain, base=fuse(chain.base, functions)))


def _chain(node: Node, functions: Functions) -> _Chain | None:
    """Follow the chain down from `node`; None where `node` itself cannot be part of one."""
    match node:
        case AiMap() if not node.steps:
            below = _chain(node.input, functions) or _start(node.input)
            moved = [_over(c, below.columns, functions) for c in node.calls]
            if any(c is None or _reads_answers(c, below.width) for c in moved):
                below, moved = _start(node.input), list(node.calls)
            first = below.width + len(below.calls)
            added = tuple(map(field, range(first, first + len(moved))))
            calls = (*below.calls, *(c for c in moved if c is not None))
            return replace(below, calls=calls, columns=(*below.columns, *added))
        case Filter() if not functions.is_volatile(node.condition):
            found = _chain(node.input, functions)
            condition = found and over_input(node.condition, found.columns, functions)
            return replace(found, conditions=(*found.conditions, condition)) if found and condition else None
        case Project() if not has_window(node):
            found = _chain(node.input, functions)
            columns = [over_input(e, found.columns, functions) for e in node.expressions] if found else []
            if found is None or any(c is None or functions.is_volatile(c) for c in columns):
                return None
            return replace(found, columns=tuple(c for c in columns if c is not None))
        case _:
            return None


def _start(base: Node) -> _Chain:
    return _Chain(base, columns=tuple(map(field, range(base.width))))


def _over(call: Call, columns: Sequence[Expression], functions: Functions) -> Call | None:
    """Return a call with its arguments and guard over the chain's columns; None where they cannot be moved."""
    arguments = [over_input(a, columns, functions) for a in call.arguments]
    when = None if call.when is None else over_input(call.when, columns, functions)
    if any(a is None for a in arguments) or (call.when is not None and when is None):
        return None
    return replace(call, arguments=tuple(a for a in arguments if a is not None), when=when)


def _reads_answers(call: Call, width: int) -> bool:
    return any(c >= width for a in call.arguments for c in ex.fields(a))


def _gains(chain: _Chain) -> bool:
    """Tell whether rows are dropped between calls, or a call of the same fields waits for another's answer."""
    guarded = [c for c in chain.calls if any(f >= chain.width for f in _fields(c.when))]
    return bool(chain.conditions or guarded)


def _fused(chain: _Chain) -> Node:
    """Make one step per condition, of the calls it reads, and one of the other calls of the same fields.

    Calls of other fields go into an operator above: for them the rows are better sorted anew.
    """
    steps: list[Step] = []
    done: set[int] = set()
    for condition in chain.conditions:
        calls = tuple(sorted(chain.own_calls(condition) - done))
        done.update(calls)
        steps.append(Step(calls, condition))
    read = _arguments(chain.calls[c] for c in done)
    rest = [i for i in range(len(chain.calls)) if i not in done]
    if not steps and rest:
        read = _arguments([chain.calls[rest[0]]])
    alike: list[int] = []
    for i in rest:
        if _arguments([chain.calls[i]]) <= read and chain.own_calls(chain.calls[i].when) <= {*done, *alike}:
            alike.append(i)
    if alike:
        steps.append(Step(tuple(alike), None))
    return _operators(chain, tuple(steps), [i for i in rest if i not in alike])


def _operators(chain: _Chain, steps: tuple[Step, ...], others: list[int]) -> Node:
    """Put the operator of `steps` over the base, the calls `others` above it, and the chain's columns on top."""
    width = chain.width
    inside = sorted(i for step in steps for i in step.calls)
    place = {width + i: width + to for to, i in enumerate([*inside, *others])}

    def moved(expression: Expression) -> Expression:
        return ex.substitute(expression, lambda c: field(place.get(c, c)))

    def call(i: int) -> Call:
        given = chain.calls[i]
        return replace(given, when=None if given.when is None else moved(given.when))

    renumbered = tuple(
        Step(tuple(inside.index(i) for i in s.calls), None if s.condition is None else moved(s.condition))
        for s in steps
    )
    node: Node = AiMap(chain.base, tuple(map(call, inside)), renumbered)
    for made in map(call, others):
        below = node.input.width if isinstance(node, AiMap) and not node.steps else node.width
        if isinstance(node, AiMap) and not node.steps and all(c < below for c in _fields(made.when)):
            node = AiMap(node.input, (*node.calls, made))
        else:
            node = AiMap(node, (made,))
    return Project(node, tuple(map(moved, chain.columns)))


def _arguments(calls: Iterable[Call]) -> frozenset[bytes]:
    return frozenset(ex.key(a) for c in calls for a in c.arguments)


def _fields(expression: Expression | None) -> frozenset[int]:
    return frozenset() if expression is None else ex.fields(expression)
