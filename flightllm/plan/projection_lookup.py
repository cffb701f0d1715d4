"""Looks through a projection: rewrites expressions over its output as expressions over its input."""

from collections.abc import Sequence

from substrait.algebra_pb2 import Expression

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Project


def windows(node: Project) -> list[Expression]:
    """Return the window functions that the projection computes."""
    parts = (e for x in node.expressions for e in ex.walk(x))
    return [e for e in parts if e.WhichOneof("rex_type") == "window_function"]


def has_window(node: Project) -> bool:
    """Return whether the projection computes window functions, whose result depends on which rows it sees."""
    return bool(windows(node))


def over_input(expression: Expression, columns: Sequence[Expression | None], functions: Functions) -> Expression | None:
    """Return `expression` with each column replaced by the expression that computes it (None: a column to keep opaque).

    Return None if the expression reads an opaque column, or if a struct path forbids the rewrite. Also return None if a
    volatile function such as `random()` would run twice.
    """
    read = {c: columns[c] for c in ex.fields(expression)}
    if any(column is None or functions.is_volatile(column) for column in read.values()):
        return None
    try:
        return ex.substitute(expression, lambda index: read[index] or ex.field(index))
    except ValueError:
        return None
