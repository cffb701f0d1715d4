"""Queries whose AI calls run as batch functions: what EXPLAIN says of them."""

from flightllm.session.session import Session
from tests.databases import explained

AI = "SELECT id, ai_gen('x', note) AS g FROM people WHERE ai_filter('y', name) AND score > 1 ORDER BY id LIMIT 2"


def test_explain_off(session: Session) -> None:
    """Without the optimizer EXPLAIN says why there is no operator, and shows DataFusion's plans."""
    session.set_option("optimizer", "off")
    lines = explained(session, AI)
    assert "the setting flightllm.optimizer is off" in lines["batch functions"]
    assert "ai_gen('x', note)" in lines["batch functions"]
    assert "people" in lines["logical_plan"]
    assert "Exec" in lines["physical_plan"]
    assert "people.score > Float64(1) AND ai_filter(people.name)" in lines["logical_plan"]
    assert "__ai" not in str(lines)


def test_explain_fallback(session: Session) -> None:
    """A plan that cannot cross Substrait names what stopped it."""
    lines = explained(session, "SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people")
    assert lines["batch functions"].splitlines()[0] == (
        "one call per distinct prompt of a batch: Unsupported plan type: Unnest"
    )
    assert "__ai" not in str(lines)


def test_explain_values(session: Session) -> None:
    """VALUES with calls are explained without making the calls."""
    lines = explained(session, "VALUES (ai_gen('x', a => 'one'))")
    assert "Values" in lines["logical_plan"]
