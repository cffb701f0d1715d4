"""Find the rows nearest to a text by an index, where a query sorts a table by similarity and keeps the first rows.

Fetch(Sort(ai_similarity(column, 'text') DESC, AiMap(Filter(Scan(t)))))  →  the same over Scan(the nearest rows of t)
"""

from collections.abc import Callable
from dataclasses import dataclass

from substrait.algebra_pb2 import Expression, SortField

from flightllm.optimizer.chain import Chain, all_over, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Fetch, Filter, Node, Project, Scan, Sort, transform


@dataclass(frozen=True, slots=True)
class Nearest:
    """The rows of a table that fulfil `conditions` and are nearest to a text."""

    scan: Scan
    column: int
    """The position of the column in the scan."""
    text: str
    rows: int
    nulls_first: bool
    """Tells whether rows without a value come before all others."""
    conditions: tuple[Expression, ...]
    """Conditions over the scan's columns."""


def nearest_by_index(root: Node, functions: Functions, find: Callable[[Nearest], Scan | None]) -> Node:
    """Replace scans by the scans that `find` returns, which have only the nearest rows; None: no index fits."""

    def replaced(node: Node) -> Node:
        nearest = _nearest(node, functions) if isinstance(node, Fetch) else None
        found = None if nearest is None else find(nearest)
        if nearest is None or found is None:
            return node
        return transform(node, lambda one: found if one is nearest.scan else one)

    return transform(root, replaced)


def _nearest(node: Fetch, functions: Functions) -> Nearest | None:
    sort, bounds = node.input, ex.bounds(node.rel)
    while isinstance(sort, Project):
        sort = sort.input
    if not isinstance(sort, Sort) or bounds is None or bounds[1] is None:
        return None
    if len(sort.rel.sorts) > 1:  # further keys order rows that are equally near
        return None
    chain = peel(sort.input, functions)
    if chain is None or chain.by_rows or any(isinstance(step, Expression) for step in chain.steps):
        return None
    by, source = sort.rel.sorts[0], _source(chain.base)
    keys = all_over([by.expr], chain.columns, functions)
    descending = (SortField.SORT_DIRECTION_DESC_NULLS_FIRST, SortField.SORT_DIRECTION_DESC_NULLS_LAST)
    compared = None if keys is None else _compared(keys[0], chain, functions)
    if source is None or compared is None or by.direction not in descending:
        return None
    scan, conditions = source
    nulls_first = by.direction == SortField.SORT_DIRECTION_DESC_NULLS_FIRST
    return Nearest(scan, compared[0], compared[1], bounds[0] + bounds[1], nulls_first, conditions)


def _source(node: Node) -> tuple[Scan, tuple[Expression, ...]] | None:
    """Return the scan and the conditions at the start of a chain."""
    conditions: list[Expression] = []
    while isinstance(node, Filter):
        conditions.append(node.condition)
        node = node.input
    if not isinstance(node, Scan) or node.rel.HasField("filter") or not node.rel.HasField("named_table"):
        return None
    return node, tuple(conditions)


def _compared(key: Expression, chain: Chain, functions: Functions) -> tuple[int, str] | None:
    """Return the column and the text whose vectors a sort key compares."""
    if functions.name(key) != "ai_similarity":
        return None
    calls = [call for step in chain.steps if isinstance(step, tuple) for call in step]
    columns, texts = [], []
    for argument in ex.arguments(key):
        place = ex.field_index(argument)
        if place is None or place < chain.base.width:
            return None
        embedded = calls[place - chain.base.width].arguments[0]
        column, text = ex.field_index(embedded), ex.text(embedded)
        columns += [] if column is None or column >= chain.base.width else [column]
        texts += [] if text is None else [text]
    return (columns[0], texts[0]) if len(columns) == len(texts) == 1 else None
