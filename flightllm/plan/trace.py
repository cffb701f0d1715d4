"""Carry the arguments of AI calls to the result of a query, so that each row of it tells the prompts behind it."""

from dataclasses import dataclass, replace

from flightllm.errors import UnsupportedError
from flightllm.functions.call import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import field
from flightllm.plan.nodes import Aggregate, AiMap, Fetch, Filter, Groups, Join, Node, Project, SetOp, Sort, has_ai

_ABOVE: tuple[tuple[type, str], ...] = (
    (Aggregate, "an aggregate or DISTINCT"),
    (Groups, "rows that are chosen by group"),
    (Join, "a join"),
    (SetOp, "UNION, INTERSECT or EXCEPT"),
)
"""The nodes that no argument passes, and their names in the words of SQL."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A call, the columns that hold its arguments, and the columns that depend on its answer."""

    ai: AICall
    first: int
    """The first of the columns with the arguments, counted from the first added column."""
    columns: frozenset[int]
    """The columns of the result that depend on the answer."""
    filters: bool = False
    """Whether the answer decides about rows."""


def traced(root: Node) -> tuple[Node, list[TracedCall]]:
    """Return the plan with the arguments of its AI calls as further columns, and where they are.

    Example: `Project(AiMap(t, f(a)), [c1])` has the column `f(a)`. The traced plan has the columns `f(a)` and `a`.

    Raises:
        UnsupportedError: an argument cannot pass a node above its call, such as an aggregate.
    """
    if not has_ai(root):
        return root, []
    match root:
        case Project():
            below, calls = traced(root.input)
            added = map(field, range(root.input.width, below.width))
            made = [ex.fields(expression) for expression in root.expressions]
            kept = [
                replace(call, columns=frozenset(c for c, reads in enumerate(made) if reads & call.columns))
                for call in calls
            ]
            return Project(below, (*root.expressions, *added)), kept
        case Filter():
            below, calls = traced(root.input)
            reads = ex.fields(root.condition)
            return replace(root, input=below), [
                replace(call, filters=call.filters or bool(reads & call.columns)) for call in calls
            ]
        case Sort() | Fetch():
            below, calls = traced(root.input)
            return replace(root, input=below), calls
        case AiMap():
            return _calls(root)
    above = next((name for kind, name in _ABOVE if isinstance(root, kind)), "another part of the query")
    raise UnsupportedError(f"one row of the result has no prompts of its own: {above} is above an AI call")


def _calls(node: AiMap) -> tuple[Node, list[TracedCall]]:
    """Return the columns of `node`, those that were added below it, and the arguments of its calls."""
    width = node.input.width
    if any(call.when is not None and any(c >= width for c in ex.fields(call.when)) for call in node.calls):
        raise UnsupportedError("one row of the result has no prompts of its own: an answer decides about another call")
    below, calls = traced(node.input)
    answers = [below.width + n for n in range(len(node.calls))]
    reads = [frozenset[int]().union(*map(ex.fields, call.arguments)) for call in node.calls]
    found = [
        replace(call, columns=call.columns | {width + n for n, own in enumerate(reads) if own & call.columns})
        for call in calls
    ]
    columns = [*map(field, range(width)), *map(field, answers), *map(field, range(width, below.width))]
    added = below.width - width
    for n, call in enumerate(node.calls):
        given = call.arguments[: len(call.ai.fields)]
        found.append(TracedCall(call.ai, added, frozenset({width + n})))
        columns += given
        added += len(given)
    return Project(AiMap(below, node.calls), tuple(columns)), found
