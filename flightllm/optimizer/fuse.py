"""Fuse AI filters, and calls that need their outcome, into one operator that drops rows between its calls.

AiMap(c, Filter(f(b), AiMap(b, Filter(f(a), AiMap(a, x)))))  →  AiMap(ask a, keep f(a); ask b, keep f(b); ask c)(x)

One fused operator can do three things. It can try the filters in the order that its own rows show to be the cheapest.
It can ask the next call about a row while the row's prompt is still in the engine's prefix cache. And it can stop as
soon as a LIMIT has its rows. Fusion comes after all rules, because the rules cannot handle an operator with steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from substrait.algebra_pb2 import Expression

from flightllm.functions.call import SEARCH
from flightllm.optimizer.chain import Chain, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Call, Filter, FusedStep, Node, Project, children, with_children


@dataclass(frozen=True, slots=True)
class _Parts:
    """A chain's calls and conditions, over the columns of `base` and then the columns of `calls`."""

    base: Node
    calls: tuple[Call, ...]
    conditions: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    """The output columns at the top of the chain."""

    @classmethod
    def of(cls, chain: Chain, functions: Functions) -> "_Parts":
        """Split the steps of a chain into calls and conditions; a condition that reads no answer filters the base."""
        calls = tuple(call for step in chain.steps if isinstance(step, tuple) for call in step)
        conditions = [step for step in chain.steps if isinstance(step, Expression)]
        if chain.by_rows:  # no rule has put a filter between these calls
            conditions = [part for c in conditions for part in functions.operands(c, "and")]
        plain = [c for c in conditions if not _answers(c, chain.base.width)]
        below = functions.conjunction(plain)
        base = chain.base if below is None else Filter(chain.base, below)
        return cls(base, calls, tuple(c for c in conditions if c not in plain), chain.columns)

    @property
    def width(self) -> int:
        """Return the number of columns of the base."""
        return self.base.width

    def needs(self, expression: Expression | None) -> frozenset[int]:
        """Return the calls whose columns an expression reads, and the calls that their guards read."""
        found: set[int] = set()
        new = _answers(expression, self.width)
        while new:
            found |= new
            new = frozenset().union(*(_answers(self.calls[c].when, self.width) for c in new)) - found
        return frozenset(found)


def fuse(root: Node, functions: Functions) -> Node:
    """Return the plan with each chain of AI filters, guards and calls turned into one operator."""
    chain = peel(root, functions, nested=False) if isinstance(root, Filter | AiMap) else None
    parts = None if chain is None or not _keeps_samples(chain) else _Parts.of(chain, functions)
    if parts is None or not _gains(parts):
        return with_children(root, tuple(fuse(c, functions) for c in children(root)))
    return _fused(replace(parts, base=fuse(parts.base, functions)))


def _keeps_samples(chain: Chain) -> bool:
    """Return whether the calls that a sample of their rows calibrates have the chain's base as their rows.

    They do if no filter below them reads an answer, and no guard of theirs. A call that no filter reads could get an
    operator of its own above the filters.
    """
    if not chain.by_rows:
        return True
    width = column = chain.base.width
    read = frozenset().union(*(ex.fields(step) for step in chain.steps if isinstance(step, Expression)))
    filtered = False
    for step in chain.steps:
        if isinstance(step, Expression):
            filtered = filtered or bool(_answers(step, width))
            continue
        for call in step:
            if call.ai.by_rows and (filtered or column not in read or _answers(call.when, width)):
                return False
            column += 1
    return True


def _gains(parts: _Parts) -> bool:
    """Return whether fusion pays: rows are dropped between calls, or a call waits for another call's answer.

    All calls must use one model or backend. Searches cannot be fused, because an index searches for all rows together.
    Neither can calls with a promise, because a promise is about all rows of its operator, and calls over sets.
    """
    if any(call.ai.cascades or call.ai.over is not None for call in parts.calls):
        return False
    bindings = {call.ai.binding for call in parts.calls}
    if len(bindings) > 1 or SEARCH in bindings:
        return False
    return bool(parts.conditions) or any(_answers(c.when, parts.width) for c in parts.calls)


def _fused(parts: _Parts) -> Node:
    """Make one step per condition with the calls that it reads, and one step of the other calls on the same fields.

    Calls on other fields go into an operator above, which can sort the rows again by its own fields.
    """
    steps: list[FusedStep] = []
    done: set[int] = set()
    for condition in parts.conditions:
        calls = tuple(sorted(parts.needs(condition) - done))
        done.update(calls)
        steps.append(FusedStep(calls, condition))
    rest = [i for i in range(len(parts.calls)) if i not in done]
    fields = _arguments(parts.calls[c] for c in (done or rest[:1]))
    alike: list[int] = []
    for i in rest:
        call = parts.calls[i]
        if _arguments([call]) <= fields and parts.needs(call.when) <= {*done, *alike}:
            alike.append(i)
    if alike:
        steps.append(FusedStep(tuple(alike), None))
    return _operators(parts, tuple(steps), [i for i in rest if i not in alike])


def _operators(parts: _Parts, steps: tuple[FusedStep, ...], others: list[int]) -> Node:
    """Put the operator of `steps` over the base, the calls `others` above it, and the chain's columns on top."""
    width = parts.width
    inside = sorted(i for step in steps for i in step.calls)
    place = {width + i: width + to for to, i in enumerate([*inside, *others])}

    def moved(expression: Expression) -> Expression:
        return ex.substitute(expression, lambda c: field(place.get(c, c)))

    def call(i: int) -> Call:
        given = parts.calls[i]
        return replace(given, when=None if given.when is None else moved(given.when))

    renumbered = tuple(
        FusedStep(tuple(inside.index(i) for i in s.calls), None if s.condition is None else moved(s.condition))
        for s in steps
    )
    node = AiMap(parts.base, tuple(map(call, inside)), renumbered)
    for made in map(call, others):
        if node.steps or _answers(made.when, node.input.width):
            node = AiMap(node, (made,))
        else:
            node = AiMap(node.input, (*node.calls, made))
    return Project(node, tuple(map(moved, parts.columns)))


def _arguments(calls: Iterable[Call]) -> frozenset[bytes]:
    return frozenset(ex.key(a) for c in calls for a in c.arguments)


def _answers(expression: Expression | None, width: int) -> frozenset[int]:
    """Return the calls whose columns, from `width` on, an expression reads."""
    return frozenset() if expression is None else frozenset(c - width for c in ex.fields(expression) if c >= width)
