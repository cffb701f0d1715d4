"""Merge neighbouring operators that do not need each other's answers, so that they share a pass over the rows.

AiMap(b, AiMap(a, x))  →  AiMap((a, b), x)
"""

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import AiMap, Call, Node, transform


def merge_operators(root: Node, functions: Functions) -> Node:
    """Merge an AI operator into the operator directly below it, if it reads none of that operator's answers."""
    del functions
    return transform(root, _merge)


def _merge(node: Node) -> Node:
    match node:
        case AiMap(input=AiMap() as below) if not any(_reads_beyond(c, below.input.width) for c in node.calls):
            return AiMap(below.input, (*below.calls, *node.calls))
        case _:
            return node


def _reads_beyond(call: Call, width: int) -> bool:
    expressions = call.arguments if call.when is None else (*call.arguments, call.when)
    return any(c >= width for e in expressions for c in ex.fields(e))
