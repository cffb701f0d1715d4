"""Compute identical AI calls once: take the answer for the same row from an operator further down.

SELECT ai_score('…', x) FROM t WHERE ai_score('…', x) > 3  →  one call per row; the projection reads the filter's column
"""

from substrait.algebra_pb2 import Expression

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Call, Fetch, Filter, Node, Project, Sort, over_input, transform, with_children


def reuse_calls(root: Node, functions: Functions) -> Node:
    """Replace each AI call by the column of an operator below that already makes this call for every row."""
    return transform(root, lambda node: _reuse(node, functions) if isinstance(node, AiMap) else node)


def _reuse(node: AiMap, functions: Functions) -> Node:
    width = node.input.width
    input_ = node.input
    found: dict[int, int] = {}
    for i, call in enumerate(node.calls):
        exposed = _expose(input_, call.ai.stub, call.arguments, functions)
        if exposed is not None and not any(map(functions.is_volatile, call.arguments)):
            input_, found[i] = exposed
    if not found:
        return node
    rest: list[Call] = [c for i, c in enumerate(node.calls) if i not in found]
    smaller = AiMap(input_, tuple(rest)) if rest else input_
    places = iter(range(input_.width, input_.width + len(rest)))
    answers = [field(found[i]) if i in found else field(next(places)) for i in range(len(node.calls))]
    return Project(smaller, (*map(field, range(width)), *answers))


def _expose(node: Node, stub: str, arguments: tuple[Expression, ...], functions: Functions) -> tuple[Node, int] | None:
    """Return `node`, if necessary with a new last column, and the column that holds the call's answer."""
    match node:
        case Filter() | Sort() | Fetch():
            below = _expose(node.input, stub, arguments, functions)
            return None if below is None else (with_children(node, (below[0],)), below[1])
        case Project():
            return _expose_project(node, stub, arguments, functions)
        case AiMap():
            return _expose_operator(node, stub, arguments, functions)
        case _:
            return None


def _expose_project(
    node: Project, stub: str, arguments: tuple[Expression, ...], functions: Functions
) -> tuple[Node, int] | None:
    moved = [over_input(a, node.expressions, functions) for a in arguments]
    known = tuple(m for m in moved if m is not None)
    below = _expose(node.input, stub, known, functions) if len(known) == len(moved) else None
    if below is None:
        return None
    input_, column = below
    for i, expression in enumerate(node.expressions):
        if ex.field_index(expression) == column:
            return with_children(node, (input_,)), i
    return Project(input_, (*node.expressions, field(column))), node.width


def _expose_operator(
    node: AiMap, stub: str, arguments: tuple[Expression, ...], functions: Functions
) -> tuple[Node, int] | None:
    width = node.input.width
    wanted = list(map(ex.key, arguments))
    for i, call in enumerate(node.calls):
        if call.ai.stub == stub and call.when is None and list(map(ex.key, call.arguments)) == wanted:
            return node, width + i
    if any(c >= width for a in arguments for c in ex.fields(a)):
        return None
    below = _expose(node.input, stub, arguments, functions)
    if below is None:
        return None
    input_, column = below
    if input_.width == width:
        return with_children(node, (input_,)), column
    widened = AiMap(input_, node.calls)
    order = (*range(width), *range(width + 1, widened.width), width)
    return Project(widened, tuple(map(field, order))), node.width
