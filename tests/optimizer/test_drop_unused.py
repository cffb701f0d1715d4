"""AI calls whose answers nobody reads are not made."""

import pytest

from flightllm.functions.call import AICall
from flightllm.optimizer import rewrite
from flightllm.optimizer.drop_unused import drop_unused
from flightllm.plan.expressions import field
from flightllm.plan.nodes import AiMap, Filter, Join, Node, Project, SetOp, walk
from flightllm.plan.planner import PlannedQuery
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, plan_of, sketch


def only(plan: PlannedQuery, *columns: int) -> str:
    """Apply the rule where only some columns of a plan are read; return the sketch of what is left below."""
    root, _ = rewrite(Project(plan.root, tuple(map(field, columns))), plan.functions, (drop_unused,))
    return sketch(root)


def calls_of(root: Node) -> list[AICall]:
    """Return the calls of a plan."""
    return [call.ai for node in walk(root) if isinstance(node, AiMap) for call in node.calls]


@pytest.mark.parametrize(
    ("sql", "columns", "after"),
    [
        ("SELECT id, ai_gen('x', note) FROM people", (0,), "Project(Project(Project(people)))"),
        ("SELECT id, ai_gen('x', note) FROM people", (1,), "Project(Project(AiMap[ai_gen](people)))"),
        (
            "SELECT id, ai_gen('x', note), ai_score('y', note) FROM people",
            (0, 2),
            "Project(Project(AiMap[ai_score](Project(people))))",
        ),
        (
            "SELECT id, ai_gen('x', a => ai_gen('y', note)) FROM people",
            (0,),
            "Project(Project(Project(Project(people))))",
        ),
        (
            "SELECT id, ai_gen('x', a => ai_gen('y', note)) FROM people",
            (1,),
            "Project(Project(AiMap[ai_gen](AiMap[ai_gen](people))))",
        ),
        (
            "SELECT id, ai_gen('x', note) FROM people UNION ALL SELECT person_id, ai_gen('y', thing) FROM likes",
            (0,),
            "Project(SetOp(Project(Project(people)), Project(Project(likes))))",
        ),
        (
            "SELECT id, ai_gen('x', note) AS g FROM people ORDER BY g LIMIT 3",
            (0,),
            "Project(Fetch(Sort(Project(AiMap[ai_gen](people)))))",
        ),
        (
            "SELECT id, ai_gen('x', note) AS g FROM people ORDER BY id LIMIT 3",
            (0,),
            "Project(Fetch(Sort(Project(Project(people)))))",
        ),
    ],
)
def test_dropped(database: Database, sql: str, columns: tuple[int, ...], after: str) -> None:
    """Calls are dropped through projections, unions, sorts and limits; what a key or another call reads stays."""
    assert only(plan_of(database, sql), *columns) == after


def test_distinct_counts_all_columns(database: Database) -> None:
    """A union that removes duplicates compares the answers, so they are needed though nobody reads them above."""
    plan = plan_of(
        database, "SELECT id, ai_gen('x', note) FROM people UNION SELECT person_id, ai_gen('y', thing) FROM likes"
    )
    assert only(plan, 0).count("AiMap[ai_gen]") == 2
    plan = plan_of(database, "SELECT id, ai_gen('x', note) FROM people INTERSECT SELECT id, name FROM people")
    assert only(plan, 0).count("AiMap[ai_gen]") == 1


@pytest.mark.parametrize("join", ["", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize(("columns", "left", "right"), [((0,), 0, 0), ((1,), 1, 0), ((3,), 0, 1), ((1, 3), 1, 1)])
def test_joins(database: Database, join: str, columns: tuple[int, ...], left: int, right: int) -> None:
    """Each side of a join keeps the calls that are read from it."""
    plan = plan_of(
        database,
        f"SELECT a.id, g, b.person_id, h FROM (SELECT id, ai_gen('x', note) AS g FROM people) a {join} JOIN "
        "(SELECT person_id, ai_gen('y', thing) AS h FROM likes) b ON a.id = b.person_id",
    )
    root, _ = rewrite(Project(plan.root, tuple(map(field, columns))), plan.functions, (drop_unused,))
    (node,) = (n for n in walk(root) if isinstance(n, Join))
    assert (len(calls_of(node.left)), len(calls_of(node.right))) == (left, right)


def test_filter_reads(database: Database) -> None:
    """A call that a predicate reads stays though its column goes no further."""
    plan = plan_of(database, "SELECT id FROM people WHERE ai_filter('x', note)")
    assert any(isinstance(n, Filter) for n in walk(plan.root))
    assert len(calls_of(rewrite(plan.root, plan.functions, (drop_unused,))[0])) == 1
    assert not any(isinstance(n, SetOp) for n in walk(plan.root))


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT count(*) FROM (SELECT id, ai_gen('x', note) FROM people)", 0),
        ("SELECT id FROM (SELECT id, ai_gen('x', note) AS a, ai_gen('y', note) AS b FROM people) WHERE b <> ''", 4),
        (
            "SELECT id FROM people LEFT JOIN (SELECT person_id AS k, ai_gen('x', thing) FROM likes) l ON id = l.k",
            0,
        ),
        ("SELECT name FROM (SELECT name, avg(ai_score('x', note)) FROM people GROUP BY name)", 0),
        ("SELECT id FROM people WHERE EXISTS (SELECT ai_gen('x', thing) FROM likes WHERE person_id = id)", 0),
    ],
)
def test_run(session: Session, sql: str, calls: int) -> None:
    """Queries that do not use an answer do not buy it."""
    on, off = ask_both(session, sql)
    assert on.calls == calls <= off.calls
