"""What becomes one operator: chains of filters and of calls that need their outcome."""

import pytest

from flightllm.optimizer import rewrite
from flightllm.optimizer.fuse import fuse
from flightllm.plan.nodes import AiMap, Node, walk
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, plan_of, small_database


def operators(database: Database, sql: str) -> list[list[tuple[int, bool]]]:
    """Return for each operator of a query, the last to run first, its steps: how many calls, and whether it filters."""
    plan = plan_of(database, sql)
    root: Node = fuse(rewrite(plan.root, plan.functions)[0], plan.functions)
    found = [node for node in walk(root) if isinstance(node, AiMap)]
    return [[(len(step.calls), step.condition is not None) for step in node.steps] for node in found]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ai_gen('x', note) FROM people", [[]]),
        ("SELECT id FROM people WHERE ai_filter('x', note)", [[(1, True)]]),
        ("SELECT id FROM people WHERE ai_filter('x', note) AND ai_filter('y', name)", [[(1, True), (1, True)]]),
        ("SELECT ai_gen('g', note) FROM people WHERE ai_filter('x', note)", [[(1, True), (1, False)]]),
        ("SELECT ai_gen('g', name) FROM people WHERE ai_filter('x', note)", [[], [(1, True)]]),
        ("SELECT id FROM people WHERE ai_filter('x', note) OR ai_filter('y', note)", [[(2, True)]]),
        ("SELECT CASE WHEN ai_filter('x', note) THEN ai_gen('y', note) END FROM people", [[(2, False)]]),
        ("SELECT id FROM people WHERE ai_filter('x', a => ai_gen('y', note))", [[(1, True)], []]),
        (
            "SELECT ai_gen('g', note), ai_gen('h', name) FROM people WHERE ai_filter('x', note)",
            [[], [(1, True), (1, False)]],
        ),
        (
            "SELECT id FROM (SELECT *, ai_score('s', note) AS s FROM people) WHERE s > 3 AND ai_filter('x', note)",
            [[(1, True), (1, True)]],
        ),
    ],
)
def test_operators(database: Database, session: Session, sql: str, expected: list[list[tuple[int, bool]]]) -> None:
    """Filters share an operator, and with them calls of the same fields; calls of other fields have one above."""
    assert operators(database, sql) == expected
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM people WHERE ai_filter('x', note) AND random() < 2",
        "SELECT id FROM (SELECT * FROM people WHERE ai_filter('x', note) ORDER BY 1 LIMIT 3) WHERE ai_filter('', note)",
        "SELECT id, rank() OVER (ORDER BY id) FROM people WHERE ai_filter('x', note) AND ai_filter('y', note)",
        "SELECT count(*) FROM people WHERE ai_filter('x', note) AND coalesce(ai_score('y', note), score) > id",
        "SELECT p.id FROM people p JOIN likes ON p.id = person_id AND ai_filter('x', note) WHERE ai_filter('y', thing)",
    ],
)
def test_same_rows(session: Session, sql: str) -> None:
    """Whatever surrounds the chain, the rows are those of the plain functions."""
    ask_both(session, sql)


def test_later_calls_are_for_rows_that_are_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A call behind a filter is made for the rows that passed it, and no other."""
    database = small_database(tmp_path_factory.mktemp("left"))
    on, _ = ask_both(database.session(), "SELECT id, ai_gen('g', note) FROM people WHERE ai_filter('x', note)")
    first, second = on.record.call_rows()
    passed = {row["id"] for row in on.rows}
    assert first["calls"] == 4
    assert second["rows"] == len(passed) < first["rows"]
    database.close()
