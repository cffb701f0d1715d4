"""Queries whose AI calls run as batch functions: what EXPLAIN says of them."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask, explained

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


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people",
        "SELECT ai_classify(note, ['a', 'b']) AS kind, count(*) FROM people GROUP BY 1",
    ],
)
def test_quality_saves_nothing(session: Session, sql: str) -> None:
    """A statement in which no proxy can decide a row says so, on each path."""
    session.set_option("quality", "recall 0.9")
    (notice,) = ask(session, sql).record.warnings
    assert notice.startswith("flightllm.quality saves nothing here, and the models were asked about all rows: ")
