"""Group before asking about the keys of groups, so that predicates on the groups come first.

Aggregate(k, Filter(f(a(k)), AiMap(a(k), x)))  →  Filter(f(a(k)), AiMap(a(k), Aggregate(k, x)))
Aggregate((k, a(k)), AiMap(a(k), x))           →  AiMap(a(k), Aggregate(k, x)), columns reordered

All rows of a group share one answer if the call reads only grouping keys. DISTINCT is an aggregate without measures.
A call with a promise stays below, because its promise is about rows and not about groups.
"""

from substrait.algebra_pb2 import AggregateRel, Expression

from flightllm.optimizer.chain import Chain, all_over, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Node, Project, over_input, transform


def group_before_ai(root: Node, functions: Functions) -> Node:
    """Move filters and AI operators from below an aggregate to above it, where all of them read only grouping keys."""
    return transform(root, lambda node: _pull(node, functions) if isinstance(node, Aggregate) else node)


def _pull(node: Aggregate, functions: Functions) -> Node:
    chain = peel(node.input, functions) if one_set(node) else None
    if chain is None or chain.cascades or chain.joins:
        return node
    keys = all_over(node.rel.grouping_expressions, chain.columns, functions)
    plain = [k for k in keys or () if chain.is_plain(k)]
    rel = _regrouped(node.rel, plain, chain, functions) if plain else None
    if keys is None or rel is None:
        return node
    grouped = Aggregate(chain.base, rel)
    over_groups = _OverGroups(plain, chain.base.width, grouped.width)
    try:
        result = chain.over(grouped, over_groups)
        columns = tuple(map(over_groups, keys))
    except _NotAKeyError:
        return node
    return Project(result, (*columns, *(field(len(plain) + i) for i in range(len(rel.measures)))))


def one_set(node: Aggregate) -> bool:
    """Return whether the aggregate has a single grouping set with all its keys, and at least one key."""
    keys = len(node.rel.grouping_expressions)
    return keys > 0 and [list(g.expression_references) for g in node.rel.groupings] == [list(range(keys))]


def _regrouped(rel: AggregateRel, keys: list[Expression], chain: Chain, functions: Functions) -> AggregateRel | None:
    """Return the aggregate over the chain's base, grouped by `keys`; None if a measure reads an answer."""
    measures = [over_input(s, chain.columns, functions) for m in rel.measures for s in ex.slots(m)]
    if any(m is None or not chain.is_plain(m) for m in measures):
        return None
    moved = iter([m for m in measures if m is not None])
    result = AggregateRel(
        grouping_expressions=keys,
        groupings=[AggregateRel.Grouping(expression_references=range(len(keys)))],
        measures=[ex.with_slots(m, moved) for m in rel.measures],
    )
    if rel.HasField("common"):
        result.common.CopyFrom(rel.common)
    return result


class _NotAKeyError(Exception):
    """An expression reads a column that is not a key."""


class _OverGroups:
    """Rewrites expressions over the rows of groups as expressions over the groups' columns."""

    def __init__(self, keys: list[Expression], width: int, groups: int) -> None:
        self._places = {ex.key(k): i for i, k in enumerate(keys)}
        self._width = width
        self._groups = groups

    def __call__(self, expression: Expression) -> Expression:
        """Return the expression over keys and answers.

        Raises:
            _NotAKeyError: the expression reads another column.
        """
        place = self._places.get(ex.key(expression))
        if place is not None:
            return field(place)
        if expression.WhichOneof("rex_type") == "selection":
            return ex.substitute(expression, self._column)
        return ex.rebuild(expression, self)

    def _column(self, index: int) -> Expression:
        if index >= self._width:
            return field(index - self._width + self._groups)
        place = self._places.get(ex.key(field(index)))
        if place is None:
            raise _NotAKeyError
        return field(place)
