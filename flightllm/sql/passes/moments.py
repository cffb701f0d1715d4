"""Compute the aggregates of DuckDB that DataFusion lacks from sums, counts and lists."""

from collections.abc import Collection, Mapping
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.functions.value_hashes import ENTROPY
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name, other_aggregate

_N: Final = "CAST(n AS DOUBLE)"
_SQUARES: Final = f"(b - a * a / {_N})"
_CUBES: Final = f"(c - 3 * b * a / {_N} + 2 * a * a * a / ({_N} * {_N}))"
_FOURTHS: Final = f"(d - 4 * c * a / {_N} + 6 * b * a * a / ({_N} * {_N}) - 3 * a * a * a * a / ({_N} * {_N} * {_N}))"
_RATIO: Final = f"({_N} * {_FOURTHS} / ({_SQUARES} * {_SQUARES}))"
"""The fourth moment by the square of the second one, both about the mean."""
_FORMS: Final[Mapping[str, str]] = {
    "skewness": (
        f"CASE WHEN n > 2 AND {_SQUARES} > 0 THEN sqrt({_N} * ({_N} - 1)) / ({_N} - 2) * sqrt({_N}) * {_CUBES}"
        f" / power({_SQUARES}, 1.5) END"
    ),
    "kurtosis": (
        f"CASE WHEN n > 3 AND {_SQUARES} > 0 THEN ({_N} - 1) * (({_N} + 1) * {_RATIO} - 3 * ({_N} - 1))"
        f" / (({_N} - 2) * ({_N} - 3)) END"
    ),
    "kurtosis_pop": f"CASE WHEN n > 1 AND {_SQUARES} > 0 THEN {_RATIO} - 3 END",
    "sem": f"CASE WHEN n > 0 THEN sqrt(p) / sqrt({_N}) END",
    **dict.fromkeys(("geomean", "geometric_mean"), "exp(g)"),
    "product": "array_product(l)",
    "entropy": f"{ENTROPY}(t)",
}
"""The value of each aggregate: `n` counts the values, and `a` to `d` are the sums of their powers."""
_X: Final = "arrow_cast(v, 'Float64')"
"""A value as a double. `arrow_cast` has a name of its own; a CAST has that of its column, which `sum(x)` has too."""
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "n": ("count", "v"),
    "a": ("sum", _X),
    "b": ("sum", f"{_X} * {_X}"),
    "c": ("sum", f"{_X} * {_X} * {_X}"),
    "d": (
        "sum",
        "arrow_cast(v, 'Float64') * arrow_cast(v, 'Float64') * arrow_cast(v, 'Float64') * arrow_cast(v, 'Float64')",
    ),
    "p": ("var_pop", _X),
    "g": ("avg", f"ln({_X})"),
    "l": ("array_agg", _X),
    "t": ("array_agg", "arrow_cast(v, 'Utf8')"),
}
MOMENTS: Final = frozenset(_FORMS)
"""The aggregates that the pass rewrites."""


def moments(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `product(x)` as `array_product(array_agg(x))`, and `skewness(x)` by sums of the powers of `x`.

    Raises:
        UnsupportedError: a value calls a model, and each sum would call it.
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
