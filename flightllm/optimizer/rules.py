"""The ordered rules, and the driver that applies them until the plan no longer changes."""

from collections.abc import Callable

from flightllm.errors import InternalError
from flightllm.optimizer.drop_empty import drop_empty
from flightllm.optimizer.drop_unused import drop_unused
from flightllm.optimizer.filter_before_ai import filter_before_ai
from flightllm.optimizer.filter_before_group import filter_before_group
from flightllm.optimizer.first_match import first_match
from flightllm.optimizer.first_numbers import first_numbers
from flightllm.optimizer.first_of_group import first_of_group
from flightllm.optimizer.group_before_ai import group_before_ai
from flightllm.optimizer.having_before_ai import having_before_ai
from flightllm.optimizer.join_before_ai import join_before_ai
from flightllm.optimizer.limit_before_ai import limit_before_ai
from flightllm.optimizer.merge_operators import merge_operators
from flightllm.optimizer.project_after_ai import project_after_ai
from flightllm.optimizer.reuse_calls import reuse_calls
from flightllm.optimizer.semi_join_before_ai import semi_join_before_ai
from flightllm.optimizer.sort_before_ai import sort_before_ai
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Node

Rule = Callable[[Node, Functions], Node]

RULES: tuple[Rule, ...] = (
    drop_empty,
    drop_unused,
    filter_before_ai,
    group_before_ai,
    filter_before_group,
    join_before_ai,
    semi_join_before_ai,
    sort_before_ai,
    limit_before_ai,
    project_after_ai,
    reuse_calls,
    merge_operators,
)

LAST_RULES: tuple[Rule, ...] = (
    having_before_ai,
    first_of_group,
    first_match,
    first_numbers,
)
"""Rules applied once, after the other rules no longer change the plan; operators cannot move past their nodes."""

_MAX_ROUNDS = 25


def rewrite(
    root: Node, functions: Functions, rules: tuple[Rule, ...] = RULES, last: tuple[Rule, ...] = ()
) -> tuple[Node, tuple[str, ...]]:
    """Apply `rules` in order until no rule changes the plan, then apply `last` once.

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


def _once(root: Node, functions: Functions, rules: tuple[Rule, ...], fired: dict[str, None]) -> Node:
    for rule in rules:
        changed = rule(root, functions)
        if changed.width != root.width:
            raise InternalError(f"rule {rule.__name__} changed {root.width} output columns into {changed.width}")
        if changed is not root:
            fired[rule.__name__] = None
        root = changed
    return root
