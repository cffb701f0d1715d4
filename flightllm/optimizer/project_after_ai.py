"""Move projections above AI operators, so that operators and filters become neighbours.

AiMap(b, Project(AiMap(a, x)))  →  Project(AiMap(b, AiMap(a, x)))

Neighbours can be merged, or run step by step in one pass over the rows.
"""

from flightllm.optimizer.chain import all_over, moved, peel
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Node, Project, call_expressions, has_window, over_input, transform


def project_after_ai(root: Node, functions: Functions) -> Node:
    """Swap each AI operator with a projection between it and the AI operator or filter below."""
    return transform(root, lambda node: _raise(node, functions) if isinstance(node, AiMap) else node)


def _raise(node: AiMap, functions: Functions) -> Node:
    project = node.input
    if not isinstance(project, Project) or has_window(project) or peel(project.input, functions) is None:
        return node
    if all_over(call_expressions(node.calls), project.expressions, functions) is None:
        return node
    calls = tuple(moved(c, lambda e: over_input(e, project.expressions, functions) or e) for c in node.calls)
    width = project.input.width
    raised = _raise(AiMap(project.input, calls), functions)
    return Project(raised, (*project.expressions, *map(field, range(width, width + len(calls)))))
