"""Compute the aggregates of DuckDB that DataFusion lacks from sums, counts and lists."""

from collections.abc import Collection, Mapping
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.functions.list_moments import KURTOSIS, KURTOSIS_POP, SKEWNESS
from flightllm.functions.run_lengths import RUN_LENGTHS
from flightllm.functions.value_hashes import ENTROPY
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name, other_aggregate

_N: Final = "CAST(n AS DOUBLE)"
HISTOGRAM: Final = (
    "CASE WHEN array_length(array_compact(l)) > 0 THEN map(array_sort(array_distinct(array_compact(l))),"
    f" {RUN_LENGTHS}(arrow_cast(array_sort(array_compact(l)), 'List(Utf8)'))) END"
)
"""A map from each value of a list `l` to its count, in the order of the values."""
_FORMS: Final[Mapping[str, str]] = {
    "skewness": f"{SKEWNESS}(l)",
    "kurtosis": f"{KURTOSIS}(l)",
    "kurtosis_pop": f"{KURTOSIS_POP}(l)",
    "sem": f"CASE WHEN n > 0 THEN sqrt(p) / sqrt({_N}) END",
    **dict.fromkeys(("geomean", "geometric_mean"), "exp(g)"),
    "product": "array_product(l)",
    "histogram": HISTOGRAM.replace("(l)", "(w)"),
    "entropy": f"{ENTROPY}(t)",
}
"""The value of each aggregate from the parts below."""
_X: Final = "arrow_cast(v, 'Float64')"
"""A value as a double. `arrow_cast` has a name of its own; a CAST has that of its column, which `sum(x)` has too."""
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "n": ("count", "v"),
    "p": ("var_pop", _X),
    "g": ("avg", f"ln({_X})"),
    "l": ("array_agg", _X),
    "w": ("array_agg", "v"),
    "t": ("array_agg", "arrow_cast(v, 'Utf8')"),
}
MOMENTS: Final = frozenset(_FORMS)
"""The aggregates that the pass rewrites."""


def moments(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `product(x)` as `array_product(array_agg(x))`, and similar functions of statistics.

    Raises:
        UnsupportedError: a value calls a model, and each part would call it.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _written(node, own))


def _written(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in MOMENTS or name in own:
        return node
    given = arguments(fields)
    if len(given) != 1:
        return node
    if changes_per_call(given, own):
        raise UnsupportedError(f"{name} would compute its values several times: compute them in a subquery")
    parts = {
        part: other_aggregate(called, written(value, v={"Nested": given[0]}), node)
        for part, (called, value) in _PARTS.items()
    }
    return {"Nested": written(_FORMS[name], **parts)}
