"""A call that ranks rows learns how many of them a LIMIT needs."""

import pytest

from flightllm.optimizer.rank_first import rank_first
from flightllm.optimizer.rules import LAST_RULES, RULES, rewrite
from flightllm.plan.nodes import AiMap, walk
from flightllm.session.database import Database
from tests.databases import plan_of

_RANK = "ai_rank('most urgent first', note, method => 'listwise')"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        pytest.param("SELECT id FROM people ORDER BY {r} LIMIT 3", 3, id="first"),
        pytest.param("SELECT id FROM people ORDER BY {r} LIMIT 3 OFFSET 2", 5, id="offset"),
        pytest.param("SELECT id FROM people ORDER BY {r} DESC LIMIT 3", -3, id="last"),
        pytest.param("SELECT id, {r} AS r FROM people ORDER BY r, id LIMIT 3", 3, id="further keys"),
        pytest.param("SELECT id, ai_gen('x', name) FROM people ORDER BY {r} LIMIT 3", 3, id="another call"),
        pytest.param("SELECT id FROM people WHERE ai_filter('x', note) ORDER BY {r} LIMIT 3", 3, id="filter below"),
        pytest.param("SELECT id FROM (SELECT id, {r} AS r FROM people) ORDER BY r LIMIT 3", 3, id="subquery"),
        pytest.param("SELECT id FROM people ORDER BY {r}", None, id="no limit"),
        pytest.param("SELECT id FROM people ORDER BY {r} OFFSET 3", None, id="only an offset"),
        pytest.param("SELECT id FROM people ORDER BY id, {r} LIMIT 3", None, id="a later key"),
        pytest.param("SELECT id FROM people ORDER BY -{r} LIMIT 3", None, id="an expression"),
        pytest.param(
            "SELECT id FROM (SELECT id, {r} AS r FROM people) WHERE r < 5 ORDER BY r LIMIT 3", None, id="filter above"
        ),
        pytest.param(
            "SELECT n FROM (SELECT {r} AS r, row_number() OVER (ORDER BY {r}) AS n FROM people) ORDER BY r LIMIT 3",
            None,
            id="window between",
        ),
        pytest.param("SELECT r FROM (SELECT {r} AS r FROM people ORDER BY id LIMIT 3)", None, id="another order"),
        pytest.param(
            "SELECT a.id FROM (SELECT id, {r} AS r FROM people) a JOIN likes ON id = person_id ORDER BY r LIMIT 3",
            None,
            id="join above",
        ),
    ],
)
def test_rows(database: Database, sql: str, rows: int | None) -> None:
    """The call knows the rows only where no row can be lost or added between it and the LIMIT."""
    plan = plan_of(database, sql.format(r=_RANK))
    tree, _ = rewrite(plan.root, plan.functions, RULES, LAST_RULES)
    calls = [call for node in walk(tree) if isinstance(node, AiMap) for call in node.calls]
    assert [call.ai.first_rows for call in calls if call.ai.function == "ai_rank"] == [rows]


def test_unchanged(database: Database) -> None:
    """A plan without such a call, or one that the rule has changed, stays the same object."""
    for sql in (
        "SELECT id FROM people ORDER BY ai_score('x', note) LIMIT 3",
        f"SELECT id, {_RANK} FROM people LIMIT 3",
    ):
        plan = plan_of(database, sql)
        assert rank_first(plan.root, plan.functions) is plan.root
    plan = plan_of(database, f"SELECT id FROM people ORDER BY {_RANK} LIMIT 3")
    changed = rank_first(plan.root, plan.functions)
    assert rank_first(changed, plan.functions) is changed
