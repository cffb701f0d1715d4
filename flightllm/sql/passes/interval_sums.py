"""Add the times between timestamps without a bound: DataFusion's sum starts again after 292 years."""

from collections.abc import Collection
from typing import Final

from flightllm.functions.interval_sum import INTERVAL_SUM
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, arguments, function_name, other_aggregate

FUNCTIONS: Final = frozenset({"sum", "avg"})
"""The aggregates that add intervals."""
_DAY: Final = 86_400_000_000_000


def has_difference(text: ParsedText) -> bool:
    """Return whether a text can subtract times, or names intervals."""
    return "-" in text.marks or "interval" in text.words


def interval_sums(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `sum(b - a)` as a call of `__interval_sum` with the sums of the days and of the rest.

    `avg` of intervals becomes their sum divided by their count; DataFusion has no such average.
    """
    types = ExpressionTypes(tree.root, columns_of)
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _summed(types, node, own))


def _summed(types: ExpressionTypes, node: Node, own: Collection[str]) -> Json:
    name = function_name(body(node)) if kind(node) == "Function" else ""
    values = arguments(body(node)) if name in FUNCTIONS else []
    if len(values) != 1 or body(body(node)["args"])["duplicate_treatment"] == "Distinct":
        return node
    (value,) = values
    given = types.of(value)
    if given not in {INTERVAL, BETWEEN_TIMES} or changes_per_call(values, own):
        return node
    total = other_aggregate("sum", value, node)
    if given == BETWEEN_TIMES:
        days = other_aggregate("sum", written(f"CAST(v AS BIGINT) / {_DAY}", v=value), node)
        rest = other_aggregate("sum", written(f"CAST(CAST(v AS BIGINT) % {_DAY} AS DECIMAL(38, 0))", v=value), node)
        total = written(f"{INTERVAL_SUM}(d, r)", d=days, r=rest)
    elif name == "sum":
        return node
    if name == "sum":
        return total
    return written("__interval_times(s, 1, n)", s=total, n=other_aggregate("count", value, node))
