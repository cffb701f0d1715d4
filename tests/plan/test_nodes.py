"""Nodes: widths, children, transformation."""

import pytest
from substrait.algebra_pb2 import JoinRel

from flightllm.plan.expressions import field
from flightllm.plan.nodes import (
    Filter,
    Join,
    Node,
    Number,
    Project,
    Scan,
    children,
    has_ai,
    keep,
    own_messages,
    transform,
    walk,
    with_children,
)
from flightllm.session.database import Database
from tests.databases import plan_of

SQL = """SELECT p.id, l.thing, ai_gen('x', p.note) FROM people p JOIN likes l ON p.id = l.person_id
WHERE p.id IN (SELECT person_id FROM likes) ORDER BY 1 LIMIT 3"""


@pytest.fixture
def root(database: Database) -> Node:
    """Return a plan with many kinds of nodes."""
    return plan_of(database, SQL).root


@pytest.fixture
def scan(database: Database) -> Node:
    """Return a table of two columns."""
    root = plan_of(database, "SELECT id, note FROM people").root
    (scan,) = (n for n in walk(root) if isinstance(n, Scan))
    return scan


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        (JoinRel.JOIN_TYPE_INNER, 4),
        (JoinRel.JOIN_TYPE_OUTER, 4),
        (JoinRel.JOIN_TYPE_LEFT_SEMI, 2),
        (JoinRel.JOIN_TYPE_LEFT_ANTI, 2),
        (JoinRel.JOIN_TYPE_RIGHT_SEMI, 2),
        (JoinRel.JOIN_TYPE_RIGHT_ANTI, 2),
        (JoinRel.JOIN_TYPE_LEFT_MARK, 3),
        (JoinRel.JOIN_TYPE_RIGHT_MARK, 3),
    ],
)
def test_join_width(scan: Node, kind: "JoinRel.JoinType.ValueType", width: int) -> None:
    """Semi and anti joins keep one side, mark joins add a boolean to it."""
    assert Join(scan, scan, kind, None).width == width


def test_widths(database: Database) -> None:
    """Aggregates have keys, measures and with several sets their number; a number is one more column."""
    assert plan_of(database, "SELECT flag, name, count(*), max(id) FROM people GROUP BY flag, name").root.width == 4
    (aggregate,) = (
        n
        for n in walk(plan_of(database, "SELECT flag, name, count(*) FROM people GROUP BY CUBE (flag, name)").root)
        if type(n).__name__ == "Aggregate"
    )
    assert aggregate.width == 4
    assert Number(aggregate, 0).width == 5


def test_same_object(root: Node) -> None:
    """A transformation that changes nothing returns the plan itself, which is how rules say that they did nothing."""
    assert transform(root, lambda node: node) is root
    assert all(with_children(node, children(node)) is node for node in walk(root))


def test_transform(root: Node) -> None:
    """Inputs are transformed first, and only what is above a change is made anew."""
    order: list[str] = []

    def note(node: Node) -> Node:
        order.append(type(node).__name__)
        return Filter(node, field(0)) if isinstance(node, Scan) else node

    changed = transform(root, note)
    assert order[0] == "Scan"
    assert order[-1] == type(root).__name__
    assert sum(isinstance(n, Filter) for n in walk(changed)) >= 2
    assert changed.width == root.width


def test_keep(scan: Node) -> None:
    """Cutting columns off is a projection, and nothing where none are too many."""
    assert keep(scan, 2) is scan
    cut = keep(scan, 1)
    assert isinstance(cut, Project)
    assert cut.width == 1


def test_has_ai(root: Node, scan: Node) -> None:
    """AI operators are found anywhere below."""
    assert has_ai(root)
    assert not has_ai(scan)


def test_own_messages(root: Node) -> None:
    """Each node gives its own expressions, without those of its inputs."""
    for node in walk(root):
        if isinstance(node, Filter | Join):
            assert len(own_messages(node)) == 1
        if isinstance(node, Project):
            assert own_messages(node) == node.expressions
