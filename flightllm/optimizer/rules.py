"""The ordered rules, and the driver that applies them until the plan no longer changes."""

from collections import Counter
from collections.abc import Callable, Mapping

from flightllm.errors import InternalError
from flightllm.optimizer.drop_empty import drop_empty
from flightllm.optimizer.drop_unused import drop_unused
from flightllm.optimizer.filter_before_ai import filter_before_ai
from flightllm.optimizer.filter_before_group import filter_before_group
from flightllm.optimizer.first_match import first_match
from flightllm.optimizer.first_numbers import first_numbers
from flightllm.optimizer.first_of_group import first_of_group
from flightllm.optimizer.fuse import fuse
from flightllm.optimizer.group_before_ai import group_before_ai
from flightllm.optimizer.having_before_ai import having_before_ai
from flightllm.optimizer.join_before_ai import join_before_ai
from flightllm.optimizer.join_by_values import join_by_values
from flightllm.optimizer.limit_before_ai import limit_before_ai
from flightllm.optimizer.merge_operators import merge_operators
from flightllm.optimizer.project_after_ai import project_after_ai
from flightllm.optimizer.rank_first import rank_first
from flightllm.optimizer.reuse_calls import reuse_calls
from flightllm.optimizer.semi_join_before_ai import semi_join_before_ai
from flightllm.optimizer.sort_before_ai import sort_before_ai
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Aggregate, AiMap, Fetch, Filter, Join, Node, Project, Sort, walk

Rule = Callable[[Node, Functions], Node]

Kinds = tuple[type[Node], ...]
"""Kinds of node, each as often as a plan must have it."""

_RULES: Mapping[Rule, tuple[Kinds, ...]] = {
    drop_empty: ((AiMap, Filter), (AiMap, Fetch)),
    drop_unused: ((AiMap,),),
    filter_before_ai: ((AiMap, Filter),),
    group_before_ai: ((AiMap, Aggregate),),
    filter_before_group: ((AiMap, Aggregate, Filter, Project),),
    join_before_ai: ((AiMap, Join),),
    semi_join_before_ai: ((AiMap, Join),),
    sort_before_ai: ((AiMap, Filter, Sort, Fetch),),
    limit_before_ai: ((AiMap, Fetch),),
    project_after_ai: ((AiMap, AiMap, Project), (AiMap, Filter, Project)),
    reuse_calls: ((AiMap, AiMap),),
    merge_operators: ((AiMap, AiMap),),
}
"""The rules in their order, each with the kinds of node that it moves: a plan must have all of one tuple."""
RULES: tuple[Rule, ...] = tuple(_RULES)

_LAST_RULES: Mapping[Rule, tuple[Kinds, ...]] = {
    having_before_ai: ((AiMap, Filter, Aggregate),),
    first_of_group: ((AiMap, Aggregate), (AiMap, Filter, Sort, Fetch)),
    first_match: ((AiMap, Filter, Join),),
    first_numbers: ((AiMap, Filter, Project),),
    rank_first: ((AiMap, Sort, Fetch),),
}
LAST_RULES: tuple[Rule, ...] = tuple(_LAST_RULES)
"""Rules applied once, after the other rules no longer change the plan; operators cannot move past their nodes."""

_NEEDS: Mapping[Rule, tuple[Counter[type[Node]], ...]] = {
    rule: tuple(map(Counter, needs))
    for rule, needs in {
        **_RULES,
        **_LAST_RULES,
        join_by_values: ((AiMap, Filter, Join),),
        fuse: ((AiMap, AiMap), (AiMap, Filter)),
    }.items()
}
"""How many nodes of each kind a rule moves; a plan must have all of one counter."""
_MAX_ROUNDS = 25


def rewrite(
    root: Node, functions: Functions, rules: tuple[Rule, ...] = RULES, last: tuple[Rule, ...] = ()
) -> tuple[Node, tuple[str, ...]]:
    """Apply `rules` in order until no rule changes the plan, then apply `last` once.

    A rule is skipped while the plan lacks the nodes that it moves.

    Return the plan and the names of the rules that fired, in the order in which they first fired.

    Raises:
        InternalError: a rule changed the number of output columns, or the rules never stop changing the plan.
    """
    fired: dict[str, None] = {}
    for _ in range(_MAX_ROUNDS):
        before = root
        root = _once(root, functions, rules, fired)
        if root is before:
            return _once(root, functions, last, fired), tuple(fired)
    raise InternalError(f"the rules {', '.join(fired)} undo one another")


def applies(rule: Rule, counts: Counter[type[Node]]) -> bool:
    """Return whether a plan with these numbers of nodes of each kind has what a rule moves."""
    needs = _NEEDS.get(rule)
    return needs is None or any(all(counts[k] >= n for k, n in kinds.items()) for kinds in needs)


def counted(root: Node) -> Counter[type[Node]]:
    """Return how many nodes of each kind a plan has."""
    return Counter(map(type, walk(root)))


def _once(root: Node, functions: Functions, rules: tuple[Rule, ...], fired: dict[str, None]) -> Node:
    counts = counted(root)
    for rule in rules:
        if not applies(rule, counts):
            continue
        changed = rule(root, functions)
        if changed.width != root.width:
            raise InternalError(f"rule {rule.__name__} changed {root.width} output columns into {changed.width}")
        if changed is not root:
            fired[rule.__name__] = None
            root, counts = changed, counted(changed)
    return root
