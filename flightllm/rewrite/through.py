"""Look through a projection: say what an expression over its output reads from its input."""

from collections.abc import Sequence

from substrait.algebra_pb2 import Expression

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Project


def has_window(node: Project) -> bool:
    """Tell whether the projection computes window functions, whose result depends on which rows it sees."""
    return any(e.WhichOneof("rex_type") == "window_function" for x in node.expressions for e in ex.walk(x))


def over_input(expression: Expression, columns: Sequence[Expression], functions: Functions) -> Expression | None:
    """Return `expression` with each column replaced by what computes it.

    None where a struct path forbids it, or a column such as `random()` would be computed twice.
    """
    if any(functions.is_volatile(columns[c]) for c in ex.fields(expression)):
        return None
    try:
        return ex.substitute(expression, lambda index: columns[index])
    except ValueError:
        return None
