"""Tell a call that ranks rows how many of the first rows a LIMIT needs.

Fetch(10, Sort(r, AiMap(r = ai_rank(…), x)))  →  the same plan, whose call ranks only the first 10 rows

Projections can be between the nodes. A filter between them can drop the first rows of the call, so that the query needs
later rows: then the call ranks all rows. DESC needs the last rows.
"""

from dataclasses import replace

from substrait.algebra_pb2 import SortField

from flightllm.functions.call import AICall
from flightllm.functions.ranking import RANK_METHOD, RANKED
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import AiMap, Fetch, Node, Project, Sort, by_rows, has_window, transform, with_children

_DESCENDING = (SortField.SORT_DIRECTION_DESC_NULLS_FIRST, SortField.SORT_DIRECTION_DESC_NULLS_LAST)
_ASCENDING = (SortField.SORT_DIRECTION_ASC_NULLS_FIRST, SortField.SORT_DIRECTION_ASC_NULLS_LAST)


def rank_first(root: Node, functions: Functions) -> Node:
    """Note in calls of ai_rank how many rows the LIMIT above them needs."""
    del functions
    return transform(root, lambda node: _noted(node) if isinstance(node, Fetch) else node)


def _noted(node: Fetch) -> Node:
    bounds = ex.bounds(node.rel)
    if bounds is None or bounds[1] is None:
        return node
    return with_children(node, (_sorted(node.input, bounds[0] + bounds[1]),))


def _sorted(node: Node, rows: int) -> Node:
    """Look for the Sort below projections."""
    if isinstance(node, Project) and not has_window(node):
        return with_children(node, (_sorted(node.input, rows),))
    if not isinstance(node, Sort) or not node.rel.sorts:
        return node
    first = node.rel.sorts[0]
    column = ex.field_index(first.expr)
    if column is None or first.direction not in (*_ASCENDING, *_DESCENDING):
        return node
    return with_children(node, (_asking(node.input, column, -rows if first.direction in _DESCENDING else rows),))


def _asking(node: Node, column: int, rows: int) -> Node:
    """Look for the call whose answers are a column of `node`."""
    match node:
        case Project() if not has_window(node):
            below = ex.field_index(node.expressions[column])
            return node if below is None else with_children(node, (_asking(node.input, below, rows),))
        case AiMap() if column < node.input.width:
            return node if by_rows(node) else with_children(node, (_asking(node.input, column, rows),))
        case AiMap():
            place = column - node.input.width
            call = node.calls[place]
            if not _ranks(call.ai) or call.ai.first_rows == rows:
                return node
            calls = list(node.calls)
            calls[place] = replace(call, ai=replace(call.ai, first_rows=rows))
            return replace(node, calls=tuple(calls))
        case _:
            return node


def _ranks(call: AICall) -> bool:
    return (call.over is not None and call.over.method == RANK_METHOD) or RANKED in call.reading.split()
