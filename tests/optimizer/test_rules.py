"""The driver of the rules."""

import pytest

from flightllm.errors import InternalError
from flightllm.optimizer import applies, counted, rewrite
from flightllm.optimizer.fuse import fuse
from flightllm.optimizer.rules import LAST_RULES, RULES
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Node, Project
from flightllm.plan.planner import PlannedQuery
from flightllm.session.database import Database
from tests.databases import plan_of

SQL = "SELECT id, ai_score('x', note), ai_gen('y', note) FROM people WHERE ai_score('x', note) > 3 ORDER BY id LIMIT 3"


@pytest.fixture
def plan(database: Database) -> PlannedQuery:
    """Return a plan that several rules change."""
    return plan_of(database, SQL)


def test_fixed_point(plan: PlannedQuery) -> None:
    """Rules apply until none changes anything; names are in the order of their first use; a second time is idle."""
    root, fired = rewrite(plan.root, plan.functions)
    assert set(fired) >= {"limit_before_ai", "reuse_calls"}
    assert rewrite(root, plan.functions) == (root, ())


def test_input_untouched(plan: PlannedQuery) -> None:
    """Rules are pure: the plan they are given can be rewritten again to the same end."""
    first = rewrite(plan.root, plan.functions)
    assert rewrite(plan.root, plan.functions)[1] == first[1]


def test_names_are_files() -> None:
    """Each rule is a function named like its file."""
    rules = [*RULES, *LAST_RULES]
    assert [rule.__name__ for rule in rules] == [rule.__module__.rsplit(".", 1)[-1] for rule in rules]


@pytest.mark.parametrize("sql", [SQL, "SELECT id, ai_gen('y', note) FROM people", "SELECT id FROM people LIMIT 1"])
def test_skipped_rules(database: Database, sql: str) -> None:
    """A rule that the driver skips would leave the plan as it is."""
    plan = plan_of(database, sql)
    counts = counted(plan.root)
    skipped = [rule for rule in (*RULES, *LAST_RULES, fuse) if not applies(rule, counts)]
    assert skipped
    assert all(rule(plan.root, plan.functions) is plan.root for rule in skipped)


def test_a_lone_call_passes_one_rule(database: Database) -> None:
    """Only the rule that drops calls looks at a plan with nothing but a scan, one AI operator and a projection."""
    plan = plan_of(database, "SELECT id, ai_gen('y', note) FROM people")
    counts = counted(plan.root)
    assert [rule.__name__ for rule in (*RULES, *LAST_RULES, fuse) if applies(rule, counts)] == ["drop_unused"]


def test_broken_rule(plan: PlannedQuery) -> None:
    """A rule that loses a column is named."""

    def lose(root: Node, functions: Functions) -> Node:
        del functions
        return Project(root, (field(0),))

    with pytest.raises(InternalError, match="rule lose changed 3 output columns into 1"):
        rewrite(plan.root, plan.functions, (lose,))


def test_endless_rules(plan: PlannedQuery) -> None:
    """Rules that undo one another end in an error that names them."""

    def wrap(root: Node, functions: Functions) -> Node:
        del functions
        return Project(root, tuple(map(field, range(root.width))))

    with pytest.raises(InternalError, match="wrap"):
        rewrite(plan.root, plan.functions, (wrap,))
