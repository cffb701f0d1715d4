"""Give `to_timestamp` of a column of texts the type that its plan has."""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_OF_COUNTS: Final = {
    "to_timestamp": "to_timestamp_nanos",
    **{name: name for name in (f"to_timestamp_{unit}" for unit in ("seconds", "millis", "micros", "nanos"))},
}
"""For each function that reads times, the function that makes a time of a count of its units."""
READERS: Final = frozenset(_OF_COUNTS)
"""The functions that the pass rewrites."""


def parsed_times(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `to_timestamp(text)` as `to_timestamp_nanos(CAST(to_timestamp(text) AS BIGINT))`.

    DataFusion's plan says that the time has a zone. Its rows have no zone where the text is not a literal, and the
    query fails. A cast to TIMESTAMPTZ does not help: the optimizer removes it.
    """
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, types))


def _written(node: Node, types: ExpressionTypes) -> Json:
    if kind(node) != "Function" or (name := function_name(body(node))) not in _OF_COUNTS:
        return node
    given = arguments(body(node))
    if len(given) == 1 and types.of(given[0]) != pa.string():
        return node
    return written(f"{_OF_COUNTS[name]}(CAST(t AS BIGINT))", t={"Function": body(node)})
